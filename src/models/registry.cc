#include "models/registry.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/suggest.h"

namespace espalier {

extern const Family kGpt2Family;
extern const Family kLlamaFamily;
extern const Family kMistralFamily;

namespace {

constexpr const Family* kFamilies[] = {&kGpt2Family, &kLlamaFamily, &kMistralFamily};
constexpr std::string_view kOwn = "espalier_";

// The family whose own config.json can say all of the spec: Llama's has no window; Mistral's has one, and is otherwise
// Llama's without biases.
std::string_view written_family(const ArchSpec& s) {
  const bool biases = s.qkv_bias || s.out_bias || s.ffn_bias;
  return s.family == "llama" && s.window > 0 && !s.parallel_block && !biases ? "mistral" : std::string_view(s.family);
}

// Nobody's config.json has MegaScale's parallel block, and only Mistral's a window.
bool needs_own_type(const ArchSpec& s) { return s.parallel_block || (s.window > 0 && written_family(s) != "mistral"); }

// One id, or the first of several.
std::optional<int64_t> token_id(const Json& config, const char* key) {
  auto found = config.find(key);
  if (found == config.end()) return std::nullopt;
  const Json& id = found->is_array() && !found->empty() ? found->front() : *found;
  return id.is_number_integer() ? std::optional(id.get<int64_t>()) : std::nullopt;
}

}  // namespace

std::span<const Family* const> families() { return kFamilies; }

const Family& family(std::string_view model_type, const std::string& what) {
  std::vector<std::string> known;
  for (const Family* f : kFamilies) {
    if (model_type == f->model_type) return *f;
    known.emplace_back(f->model_type);
  }
  throw error(Code::kUnsupported, "{}: model_type '{}' is not one that Espalier runs{}; `espalier list models` shows "
              "those it does", what, model_type, did_you_mean(model_type, known));
}

ArchSpec read_config(const Json& config, const std::string& what) {
  std::string type = json_get<std::string>(config, "model_type", what);
  if (config.contains("quantization_config") && !config["quantization_config"].is_null())
    throw error(Code::kUnsupported, "{}: \"quantization_config\" (weights quantised by another program) is not read; "
                "use the unquantised model", what);
  const bool own = type.starts_with(kOwn);
  if (own) type = type.substr(kOwn.size());
  ArchSpec spec = family(type, what).read_config(config, what);
  spec.family = type;
  if (own) {
    spec.parallel_block = json_get_or<bool>(config, "parallel_block", false, what);
    spec.window = json_get_or<int64_t>(config, "sliding_window", 0, what);
  }
  spec.bos = token_id(config, "bos_token_id");
  spec.eos = token_id(config, "eos_token_id");
  validate(spec, what);
  return spec;
}

OrderedJson write_config(const ArchSpec& spec, DType dtype) {
  const Family& f = family(written_family(spec), "writing config.json");
  OrderedJson config;
  if (needs_own_type(spec)) {
    config["model_type"] = std::string(kOwn) + f.model_type;
    config["parallel_block"] = spec.parallel_block;
    config["sliding_window"] = spec.window;
  } else {
    config["architectures"] = {f.architecture};
    config["model_type"] = f.model_type;
  }
  config["torch_dtype"] = dtype == DType::kF32 ? "float32" : dtype == DType::kBF16 ? "bfloat16" : "float16";
  f.write_config(spec, config);
  if (spec.bos) config["bos_token_id"] = *spec.bos;
  if (spec.eos) config["eos_token_id"] = *spec.eos;
  config["use_cache"] = true;
  return config;
}

LayerName layer_name(std::string_view ours) {
  constexpr std::string_view kPrefix = "layers.";
  if (!ours.starts_with(kPrefix)) return {-1, ours};
  ours.remove_prefix(kPrefix.size());
  int64_t layer = -1;
  const auto [end, status] = std::from_chars(ours.data(), ours.data() + ours.size(), layer);
  ESP_CHECK(status == std::errc() && *end == '.', "weight name {}", ours);
  return {layer, ours.substr(size_t(end - ours.data()) + 1)};
}

}  // namespace espalier
