#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "base/json_value.h"
#include "cli/describe.h"
#include "formats/hf_folder.h"
#include "formats/pickle.h"
#include "models/load.h"
#include "models/registry.h"
#include "text/tokenizer.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

OrderedJson dims(const Shape& shape) {
  OrderedJson list = OrderedJson::array();
  for (int i = 0; i < shape.rank(); ++i) list.push_back(shape[i]);
  return list;
}

/// Numbers by dtype, files, bytes, and the table of tensors.
OrderedJson summary_of(const SafetensorsFolder& files) {
  std::map<std::string, int64_t> numbers;
  OrderedJson tensors = OrderedJson::array();
  int64_t count = 0;
  uint64_t bytes = 0;
  for (const std::string& name : files.names()) {
    const TensorInfo& info = *files.find(name);
    numbers[dtype_name(info.dtype)] += info.shape.size();
    count += info.shape.size();
    bytes += info.bytes;
    tensors.push_back({{"name", name}, {"dtype", dtype_name(info.dtype)}, {"shape", dims(info.shape)},
                       {"bytes", info.bytes}});
  }
  OrderedJson object = {{"elements", count}, {"dtypes", numbers}, {"weight_files", files.files().size()},
                        {"weight_bytes", bytes}};
  if (!files.files().empty() && !files.files()[0].metadata().empty()) object["metadata"] = files.files()[0].metadata();
  object["tensors"] = tensors;
  return object;
}

OrderedJson layers_where(const std::vector<bool>& list) {
  OrderedJson layers = OrderedJson::array();
  for (size_t i = 0; i < list.size(); ++i)
    if (list[i]) layers.push_back(i);
  return layers;
}

OrderedJson summary_of(const ArchSpec& s) {
  OrderedJson object = {{"architecture", family(s.family, "inspecting").summary},
                        {"family", s.family},
                        {"parameters", parameter_count(s)},
                        {"layers", s.layers},
                        {"width", s.width},
                        {"heads", s.heads},
                        {"kv_heads", s.kv_heads},
                        {"head_size", s.head_size},
                        {"ffn", s.ffn},
                        {"vocab", s.vocab},
                        {"positions", s.positions},
                        {"tied_head", s.tied_head}};
  if (!s.more_eos.empty()) {
    object["eos_ids"] = {*s.eos};
    for (const int64_t id : s.more_eos) object["eos_ids"].push_back(id);
  }
  if (s.rope_theta > 0) object["rope_theta"] = s.rope_theta;
  if (s.rotary_size > 0) object["rotary_size"] = s.rotary_size;
  if (s.local_rope_theta > 0) object["local_rope_theta"] = s.local_rope_theta;
  if (s.rope_scaling.kind != RopeScaling::Kind::kNone) {
    constexpr const char* kKinds[] = {"none", "linear", "dynamic", "llama3", "yarn"};
    object["rope_scaling"] = {{"type", kKinds[int(s.rope_scaling.kind)]}, {"factor", s.rope_scaling.factor}};
  }
  if (s.window > 0) object["window"] = s.window;
  if (!s.full_attention.empty()) object["full_attention_layers"] = layers_where(s.full_attention);
  if (!s.no_rope.empty()) object["layers_without_positions"] = layers_where(s.no_rope);
  if (s.qk_norm != QkNorm::kNone) object["qk_norm"] = s.qk_norm == QkNorm::kHeads ? "heads" : "whole";
  if (s.attention_softcap > 0) object["attention_softcap"] = s.attention_softcap;
  if (s.logit_softcap > 0) object["logit_softcap"] = s.logit_softcap;
  if (s.parallel_block) object["parallel_block"] = true;
  object["kv_cache_bytes_per_token"] = 2 * s.layers * s.kv_width() * dtype_size(DType::kF32);
  return object;
}

OrderedJson summary_of(const Tokenizer& t) {
  const auto token = [&](std::optional<int32_t> id) {
    return id ? OrderedJson{{"id", *id}, {"token", t.token_text(*id)}} : OrderedJson(nullptr);
  };
  int64_t special = 0;
  for (int64_t id = 0; id < t.vocab_size(); ++id) special += t.is_special(int32_t(id));
  return {{"vocab_size", t.vocab_size()}, {"special_tokens", special}, {"bos", token(t.bos())}, {"eos", token(t.eos())},
          {"pad", token(t.pad())},        {"vocab_hash", fmt::format("{:016x}", t.vocab_hash())}};
}

}  // namespace

OrderedJson describe_spec(const ArchSpec& spec) { return summary_of(spec); }
OrderedJson describe_vocabulary(const Tokenizer& tokenizer) { return summary_of(tokenizer); }
OrderedJson describe_shape(const Shape& shape) { return dims(shape); }

OrderedJson describe_config(Terminal&, const std::string& path, const DescribeOptions&) {
  return summary_of(read_config(read_json_file(path), path));
}

OrderedJson describe_tokenizer(Terminal&, const std::string& path, const DescribeOptions&) {
  return summary_of(Tokenizer::load(path));
}

OrderedJson describe_safetensors(Terminal&, const std::string& path, const DescribeOptions&) {
  const bool index = path.ends_with(".json");
  const std::string folder = fs::path(path).parent_path();
  return summary_of(SafetensorsFolder::open(index ? (folder.empty() ? "." : folder) : path));
}

OrderedJson describe_model(Terminal& terminal, const std::string& folder, const DescribeOptions& options) {
  OrderedJson object;
  try {
    if (path_exists(folder + "/config.json")) object.update(summary_of(load_spec(folder)));
  } catch (const Error& e) {  // inspect's edge: what we cannot run, we can still look at
    object["cannot_run"] = e.what();
  }
  if (tokenizer_file(folder)) object["tokenizer"] = summary_of(Tokenizer::load(folder));
  const bool one_file = path_exists(folder + "/model.safetensors");
  if (!one_file && !path_exists(folder + "/model.safetensors.index.json")) {
    if (const auto pickle = pickle_in(folder)) object["cannot_run"] = pickle_refusal(*pickle).what();
    return object;
  }
  object.update(summary_of(open_weights(folder)));
  if (options.verify && !object.contains("cannot_run")) {  // names, shapes, and that every number is finite
    load_model(terminal.context(), one_process_mesh(), folder, {});
    object["verified"] = true;
  }
  return object;
}

}  // namespace espalier
