// Qwen2, 2.5 and 3 (Yang et al. 2024, 2025): Llama with biases on queries, keys and values, or with QK-norm instead;
// the upper layers may have a sliding window.

#include "base/json_value.h"
#include "models/config_fields.h"
#include "models/llama_names.h"

namespace espalier {
namespace {

constexpr ConfigDefaults kQwen2 = {.positions = 32768};
constexpr ConfigDefaults kQwen3 = {.positions = 32768, .head_size = 128};

ArchSpec read(const Json& config, const std::string& what, const ConfigDefaults& defaults) {
  refuse_true(config, what, {"mlp_bias"});
  ArchSpec s = read_llama_fields(config, what, defaults);
  if (!json_get_or<bool>(config, "use_sliding_window", false, what)) return s;
  const int64_t lower = json_get_or<int64_t>(config, "max_window_layers", 28, what);
  read_windows(config, s, what, [&](int64_t layer) { return layer >= lower; });
  return s;
}

ArchSpec read_qwen2(const Json& config, const std::string& what) {
  ArchSpec s = read(config, what, kQwen2);
  s.qkv_bias = true;
  return s;
}

ArchSpec read_qwen3(const Json& config, const std::string& what) {
  ArchSpec s = read(config, what, kQwen3);
  s.qkv_bias = s.out_bias = json_get_or<bool>(config, "attention_bias", false, what);
  s.qk_norm = QkNorm::kHeads;
  return s;
}

void write_qwen2(const ArchSpec& s, OrderedJson& config) {
  write_llama_fields(s, config, kQwen2);
  config["use_sliding_window"] = s.window > 0;
  write_windows(s, config);
  int64_t lower = 0;  // before transformers 4.52 the layers below this number were those without the window
  while (lower < s.layers && s.window_of(lower) == 0) ++lower;
  config["max_window_layers"] = lower;
}

void write_qwen3(const ArchSpec& s, OrderedJson& config) {
  write_qwen2(s, config);
  config["attention_bias"] = s.qkv_bias;
}

}  // namespace

extern const Family kQwen2Family, kQwen3Family;
const Family kQwen2Family = {"qwen2", "Qwen2ForCausalLM", "Qwen2/2.5: Llama with biases on queries, keys and values",
                             read_qwen2, write_qwen2, llama_parts, llama_ignored};
const Family kQwen3Family = {"qwen3", "Qwen3ForCausalLM", "Qwen3: Llama with QK-norm",
                             read_qwen3, write_qwen3, llama_parts, llama_ignored};

}  // namespace espalier
