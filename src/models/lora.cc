#include "models/lora.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_value.h"
#include "formats/gguf.h"
#include "formats/gguf_blocks.h"
#include "formats/safetensors.h"
#include "models/gguf_weights.h"
#include "models/registry.h"

namespace espalier {
namespace {

constexpr std::string_view kWeight = ".weight", kPeftPrefix = "base_model.model.";

std::string without(std::string_view text, std::string_view end) {
  return std::string(text.substr(0, text.size() - end.size()));
}

/// The factors of one Hugging Face weight, "model.layers.0.self_attn.q_proj.weight".
struct Pair {
  Tensor a, b;  // f32
};

/// What a file says, under the names of the model's own files.
struct AdapterFile {
  std::string path;
  std::map<std::string, Pair> pairs;
  double alpha = 1;
  std::map<std::string, double> alphas;  // of modules whose names end so
  bool root_of_rank = false;             // scale alpha / sqrt(r): Kalajdzievski 2023, arXiv 2312.03732

  double scale(const std::string& name, int64_t rank) const {
    double own = alpha;
    for (const auto& [end, value] : alphas)
      if (without(name, kWeight).ends_with(end)) own = value;
    return own / (root_of_rank ? std::sqrt(double(rank)) : double(rank));
  }
};

Tensor as_f32(const Tensor& tensor, const std::string& place) {
  Tensor wide(DType::kF32, tensor.shape());
  float* to = wide.as<float>();
  for (int64_t i = 0; i < tensor.size(); ++i) {
    if (tensor.dtype() == DType::kF32) to[i] = tensor.as<float>()[i];
    else if (tensor.dtype() == DType::kBF16) to[i] = float(tensor.as<bf16>()[i]);
    else if (tensor.dtype() == DType::kF16) to[i] = float(tensor.as<f16>()[i]);
    else throw error(Code::kUnsupported, "reading {}: {} numbers; expected f32, bf16 or f16", place,
                     dtype_name(tensor.dtype()));
  }
  return wide;
}

// ---- PEFT ----

void refuse(const Json& config, const char* key, bool wanted, const std::string& what) {
  if (!wanted) return;
  throw error(Code::kUnsupported, "reading {}: {} is {}; adapters of plain LoRA are read. Merge it into the model with "
              "PEFT's merge_and_unload() instead", what, key, config[key].dump());
}

void read_peft_config(const std::string& path, AdapterFile& file) {
  const Json config = read_json_file(path, 1 << 20);
  if (!config.is_object()) throw error(Code::kBadData, "reading {}: expected an object", path);
  const auto given = [&](const char* key) {
    const auto found = config.find(key);
    return found != config.end() && !found->is_null() && *found != false && !(found->is_structured() && found->empty());
  };
  const std::string type = json_get_or<std::string>(config, "peft_type", "LORA", path);
  if (type != "LORA") throw error(Code::kUnsupported, "reading {}: peft_type {}; LORA is read", path, type);
  for (const char* key : {"use_dora", "modules_to_save", "lora_bias", "layer_replication", "trainable_token_indices",
                          "target_parameters"})
    refuse(config, key, given(key), path);
  refuse(config, "bias", json_get_or<std::string>(config, "bias", "none", path) != "none", path);
  file.alpha = json_get_or<double>(config, "lora_alpha", 8.0, path);
  file.root_of_rank = json_get_or<bool>(config, "use_rslora", false, path);
  if (!given("alpha_pattern")) return;
  for (const auto& [name, value] : config["alpha_pattern"].items()) {
    if (!value.is_number() || name.find_first_of("*+?[](){}|^$\\") != name.npos)
      throw error(Code::kUnsupported, "reading {}: alpha_pattern '{}'; names of modules and numbers are read", path,
                  name);
    file.alphas[name] = value.get<double>();
  }
}

/// "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight" to the model's name and whether it is A.
std::optional<std::pair<std::string, bool>> peft_name(std::string_view name) {
  if (!name.starts_with(kPeftPrefix)) return std::nullopt;
  for (const auto& [end, is_a] : {std::pair{std::string_view(".lora_A.weight"), true}, {".lora_B.weight", false},
                                  {".lora_A.default.weight", true}, {".lora_B.default.weight", false}})
    if (name.ends_with(end)) return std::pair{without(name.substr(kPeftPrefix.size()), end) + ".weight", is_a};
  return std::nullopt;
}

AdapterFile read_peft(const std::string& path) {
  const bool folder = is_folder(path);
  const std::filesystem::path home = folder ? std::filesystem::path(path) : std::filesystem::path(path).parent_path();
  AdapterFile file{.path = folder ? (home / "adapter_model.safetensors").string() : path};
  if (!is_file(file.path))
    throw error(Code::kNotFound, "reading the adapter {}: there is no {}; give a folder that PEFT saved, its "
                "adapter_model.safetensors, or a .gguf adapter", path, file.path);
  read_peft_config((home / "adapter_config.json").string(), file);
  const SafetensorsFile tensors = SafetensorsFile::open(file.path);
  for (const std::string& name : tensors.names()) {
    const auto known = peft_name(name);
    if (!known)
      throw error(Code::kUnsupported, "reading {}: tensor {} is no factor of a linear layer", file.path, name);
    Pair& pair = file.pairs[known->first];
    (known->second ? pair.a : pair.b) = as_f32(tensors.tensor(name), fmt::format("tensor {} of {}", name, file.path));
  }
  return file;
}

// ---- GGUF ----

AdapterFile read_gguf(const std::string& path, const ArchSpec& spec) {
  const GgufFile gguf = GgufFile::open(path);
  const GgufMetadata& said = gguf.metadata();
  if (said.text("general.type") != "adapter" || said.text("adapter.type") != "lora")
    throw error(Code::kUnsupported, "reading {}: it is no LoRA adapter (general.type and adapter.type say so in one); "
                "a model is given without --lora", path);
  const GgufArch& arch = need_gguf_arch(gguf);
  if (find_gguf_arch_of(spec.family) != &arch)
    throw error(Code::kMismatch, "reading {}: an adapter of the architecture {}; the model's is {}", path, arch.name,
                spec.family);
  AdapterFile file{.path = path, .pairs = {}, .alpha = said.need_number("adapter.lora.alpha"), .alphas = {}};
  for (const GgufTensor& tensor : gguf.tensors()) {
    const bool is_a = tensor.name.ends_with(".lora_a"), is_b = tensor.name.ends_with(".lora_b");
    const auto name = is_a || is_b ? gguf_to_config_name(arch, tensor.name.substr(0, tensor.name.size() - 7))
                                   : std::nullopt;
    if (!name || tensor.shape.rank() != 2)
      throw error(Code::kUnsupported, "reading {}: tensor {} is no factor of a linear layer", path, tensor.name);
    Tensor wide(DType::kF32, tensor.shape);
    const std::string place = fmt::format("tensor {} of {}", tensor.name, path);
    dequantise(tensor.type, gguf.data(tensor).data(), tensor.shape.size(), wide.as<float>(), place);
    if (is_b && gguf_moves_rows(arch, *name)) {
      const int64_t rows = tensor.shape[0], cols = tensor.shape[1];
      Tensor sorted(DType::kF32, tensor.shape);
      for (int64_t row = 0; row < rows; ++row) {
        const int64_t from = gguf_row(arch, spec, *name, row);
        if (from >= rows)
          throw error(Code::kMismatch, "reading {}: it is {}, too few rows for the model's heads", place,
                      tensor.shape.text());
        std::memcpy(sorted.as<float>() + row * cols, wide.as<float>() + from * cols, size_t(cols) * sizeof(float));
      }
      wide = std::move(sorted);
    }
    (is_a ? file.pairs[*name].a : file.pairs[*name].b) = std::move(wide);
  }
  return file;
}

bool finite(const Tensor& t) {
  return std::all_of(t.as<float>(), t.as<float>() + t.size(), [](float x) { return std::isfinite(x); });
}

}  // namespace

/// Puts a file's pairs to the rows of the model's weights that they change.
class LoraReader {
 public:
  LoraReader(AdapterFile file, const ArchSpec& spec) : file_(std::move(file)), spec_(spec) {}

  LoraAdapter read() {
    LoraAdapter adapter;
    adapter.path_ = file_.path;
    const Family& family = espalier::family(spec_.family, file_.path);
    for (const WeightInfo& weight : weight_list(spec_)) {
      const bool product = weight.name.ends_with("qkv.weight") || weight.name.ends_with("out.weight") ||
                           weight.name.ends_with("up.weight") || weight.name.ends_with("down.weight");
      if (!product) continue;
      for (const TensorPart& part : family.parts(spec_, weight.name)) add(adapter, weight, part);
    }
    for (const auto& [name, pair] : file_.pairs)
      if (!used_.contains(name))
        throw error(Code::kUnsupported, "reading {}: it changes {}, which is none of the products of this model's "
                    "layers; is it another model's adapter?", file_.path, name);
    if (adapter.parts_.empty()) throw error(Code::kBadData, "reading {}: it changes nothing", file_.path);
    return adapter;
  }

 private:
  void add(LoraAdapter& adapter, const WeightInfo& weight, const TensorPart& part) {
    auto found = file_.pairs.find(part.name);
    if (found == file_.pairs.end() && part.name.starts_with("transformer."))
      found = file_.pairs.find(part.name.substr(12));
    if (found == file_.pairs.end()) return;
    const auto& [name, pair] = *found;
    const int64_t rows = part.rows > 0 ? part.rows : weight.rows, theirs = part.their_rows > 0 ? part.their_rows : rows;
    if (!used_.contains(name)) check(name, pair, theirs, weight.cols);
    used_.insert(name);
    const int64_t rank = pair.a.shape()[0];
    Tensor b(DType::kF32, {rows, rank});
    std::memcpy(b.data(), pair.b.as<float>() + part.their_row * rank, size_t(rows * rank) * sizeof(float));
    adapter.parts_[weight.name].push_back({part.row, pair.a.clone(), std::move(b), float(file_.scale(name, rank))});
  }

  void check(const std::string& name, const Pair& pair, int64_t rows, int64_t cols) const {
    if (!pair.a || !pair.b)
      throw error(Code::kBadData, "reading {}: {} has {} factor only", file_.path, name, pair.a ? "its A" : "its B");
    const Shape &a = pair.a.shape(), &b = pair.b.shape();
    if (a.rank() != 2 || b.rank() != 2 || a[0] < 1 || a[0] != b[1] || a[1] != cols || b[0] != rows)
      throw error(Code::kMismatch, "reading {}: the factors of {} are {} and {}; this model wants [r, {}] and [{}, r]",
                  file_.path, name, a.text(), b.text(), cols, rows);
    if (!finite(pair.a) || !finite(pair.b))
      throw error(Code::kBadData, "reading {}: the factors of {} hold NaN or infinity", file_.path, name);
    if (!std::isfinite(file_.scale(name, a[0])))
      throw error(Code::kBadData, "reading {}: the scale of {} is no number", file_.path, name);
  }

  AdapterFile file_;
  const ArchSpec& spec_;
  std::set<std::string> used_;
};

std::shared_ptr<const LoraAdapter> LoraAdapter::load(const std::string& path, const ArchSpec& spec) {
  if (!path_exists(path)) throw error(Code::kNotFound, "reading the adapter {}: there is no such file", path);
  const bool gguf = is_file(path) && is_gguf(path);
  return std::make_shared<const LoraAdapter>(LoraReader(gguf ? read_gguf(path, spec) : read_peft(path), spec).read());
}

const std::vector<LoraPart>& LoraAdapter::parts(std::string_view weight) const {
  static const std::vector<LoraPart> none;
  const auto found = parts_.find(weight);
  return found == parts_.end() ? none : found->second;
}

int64_t LoraAdapter::parameters() const {
  int64_t sum = 0;
  for (const auto& [weight, parts] : parts_)
    for (const LoraPart& part : parts) sum += part.a.size() + part.b.size();
  return sum;
}

}  // namespace espalier
