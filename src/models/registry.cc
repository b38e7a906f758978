#include "models/registry.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/json_value.h"
#include "base/suggest.h"
#include "models/config_fields.h"

namespace espalier {

extern const Family kGpt2Family, kGptNeoxFamily, kLlamaFamily, kMistralFamily, kQwen2Family, kQwen3Family,
    kGemma2Family, kGemma3Family, kPhi3Family, kOlmo2Family, kGraniteFamily, kSmolLm3Family;

namespace {

constexpr const Family* kFamilies[] = {&kGpt2Family,    &kGptNeoxFamily, &kLlamaFamily,   &kMistralFamily,
                                       &kQwen2Family,   &kQwen3Family,   &kGemma2Family,  &kGemma3Family,
                                       &kPhi3Family,    &kOlmo2Family,   &kGraniteFamily, &kSmolLm3Family};
constexpr std::string_view kOwn = "espalier_";

/// Types that are known and not run, and why.
constexpr std::string_view kMixtures[] = {
    "mixtral",   "qwen2_moe", "qwen3_moe",  "qwen3_next",   "deepseek",   "deepseek_v2",   "deepseek_v3", "gpt_oss",
    "olmoe",     "phimoe",    "granitemoe", "llama4",       "llama4_text", "dbrx",         "jetmoe",      "glm4_moe",
    "minimax",   "dots1",     "ernie4_5_moe", "hunyuan_v1_moe", "bailing_moe", "lfm2_moe", "grok-1",      "arctic"};
constexpr std::string_view kWithImages[] = {"gemma3", "mllama", "qwen2_vl", "qwen2_5_vl", "qwen3_vl", "mistral3",
                                            "llava", "idefics3", "smolvlm", "paligemma"};

std::optional<int64_t> token_id(const Json& config, const char* key) {
  const auto found = config.find(key);
  if (found == config.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<int64_t>();
}

}  // namespace

std::span<const Family* const> families() { return kFamilies; }

const Family& family(std::string_view model_type, const std::string& what) {
  std::vector<std::string> known;
  for (const Family* f : kFamilies) {
    if (model_type == f->model_type) return *f;
    known.emplace_back(f->model_type);
  }
  if (std::ranges::find(kMixtures, model_type) != std::end(kMixtures))
    throw error(Code::kUnsupported, "{}: model_type '{}' is a mixture of experts, which is not run yet; use a dense "
                "model (`espalier list models`)", what, model_type);
  if (std::ranges::find(kWithImages, model_type) != std::end(kWithImages))
    throw error(Code::kUnsupported, "{}: model_type '{}' holds a model of images beside that of text; use a model of "
                "text alone (`espalier list models`)", what, model_type);
  throw error(Code::kUnsupported, "{}: model_type '{}' is not one that Espalier runs{}; `espalier list models` shows "
              "those it does", what, model_type, did_you_mean(model_type, known));
}

ArchSpec read_config(const Json& config, const std::string& what) {
  std::string type = json_get<std::string>(config, "model_type", what);
  const bool own = type.starts_with(kOwn);
  if (own) type = type.substr(kOwn.size());
  const Family& f = family(type, what);
  refuse_foreign_fields(config, what);
  ArchSpec spec = f.read_config(config, what);
  spec.family = type;
  if (own) {
    spec.parallel_block = json_get_or<bool>(config, "parallel_block", spec.parallel_block, what);
    spec.window = json_get_or<int64_t>(config, "sliding_window", 0, what);
  }
  spec.bos = token_id(config, "bos_token_id");
  read_eos(config, spec, what);
  spec.pad = token_id(config, "pad_token_id");
  validate(spec, what);
  return spec;
}

namespace {

// The spec under the type of `f`, or our own type after it.
OrderedJson config_as(const Family& f, const ArchSpec& spec, DType dtype, bool own) {
  OrderedJson config;
  if (!own) config["architectures"] = {f.architecture};
  config["model_type"] = own ? std::string(kOwn) + f.model_type : f.model_type;
  config["torch_dtype"] = dtype == DType::kF32 ? "float32" : dtype == DType::kBF16 ? "bfloat16" : "float16";
  f.write_config(spec, config);
  if (own) {
    config["parallel_block"] = spec.parallel_block;
    config["sliding_window"] = spec.window;
  }
  if (spec.bos) config["bos_token_id"] = *spec.bos;
  write_eos(spec, config);
  // Where it is missing some of transformers' types take one that the vocabulary may not have.
  config["pad_token_id"] = spec.pad ? OrderedJson(*spec.pad) : OrderedJson(nullptr);
  config["use_cache"] = true;
  return config;
}

bool says_all(const OrderedJson& config, const ArchSpec& spec) {
  ArchSpec again = read_config(Json::parse(config.dump()), "the written config.json");
  again.family = spec.family;
  if (spec.rms_norm) again.norm_bias = spec.norm_bias;  // RMSNorm has none either way
  return again == spec;
}

}  // namespace

OrderedJson write_config(const ArchSpec& spec, DType dtype) {
  const std::string what = "writing config.json";
  const Family& f = family(spec.family, what);
  OrderedJson config = config_as(f, spec, dtype, false);
  if (says_all(config, spec)) return config;
  if (spec.family == "llama" && spec.window > 0) {
    config = config_as(kMistralFamily, spec, dtype, false);
    if (says_all(config, spec)) return config;
  }
  config = config_as(f, spec, dtype, true);
  if (!says_all(config, spec))
    throw error(Code::kUnsupported, "{}: no field of a {} says all of this model; change it to one that the family "
                "knows", what, spec.family);
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
