// GPT-NeoX and Pythia (Black et al. 2022; Biderman et al. 2023): LayerNorm and biases everywhere, attention and
// feed-forward side by side from a norm each, heads that turn in part. Queries, keys and values lie in one tensor, head
// by head: q of head 0, k of head 0, v of head 0, q of head 1, ...

#include "base/error.h"
#include "base/json_value.h"
#include "models/config_fields.h"
#include "models/registry.h"

namespace espalier {
namespace {

ArchSpec read(const Json& config, const std::string& what) {
  ArchSpec s;
  s.layers = json_get<int64_t>(config, "num_hidden_layers", what);
  s.width = json_get<int64_t>(config, "hidden_size", what);
  s.heads = s.kv_heads = json_get<int64_t>(config, "num_attention_heads", what);
  if (s.heads < 1 || s.width % s.heads != 0)
    throw error(Code::kBadData, "{}: hidden_size {} is not a multiple of num_attention_heads {}", what, s.width,
                s.heads);
  s.head_size = s.width / s.heads;
  s.ffn = json_get<int64_t>(config, "intermediate_size", what);
  s.vocab = json_get<int64_t>(config, "vocab_size", what);
  s.positions = json_get_or<int64_t>(config, "max_position_embeddings", 2048, what);
  s.norm_eps = json_get_or<double>(config, "layer_norm_eps", 1e-5, what);
  s.activation = read_activation(config, "hidden_act", "gelu", what);
  s.qkv_bias = s.out_bias = json_get_or<bool>(config, "attention_bias", true, what);
  s.ffn_bias = true;
  s.tied_head = json_get_or<bool>(config, "tie_word_embeddings", false, what);
  s.parallel_block = json_get_or<bool>(config, "use_parallel_residual", true, what);
  s.shared_norm = false;
  // NeoX has names of its own for the base and the share.
  Json rope = config.contains("rope_parameters") && config["rope_parameters"].is_object() ? config["rope_parameters"]
                                                                                         : Json::object();
  if (rope.empty() && config.contains("rope_scaling") && config["rope_scaling"].is_object())
    rope = config["rope_scaling"];
  if (!rope.contains("rope_theta")) rope["rope_theta"] = json_get_or<double>(config, "rotary_emb_base", 10000, what);
  if (!rope.contains("partial_rotary_factor"))
    rope["partial_rotary_factor"] = json_get_or<double>(config, "rotary_pct", 0.25, what);
  read_rope({{"rope_parameters", rope}}, s, what);
  return s;
}

void write(const ArchSpec& s, OrderedJson& config) {
  config["num_hidden_layers"] = s.layers;
  config["hidden_size"] = s.width;
  config["num_attention_heads"] = s.heads;
  config["intermediate_size"] = s.ffn;
  config["vocab_size"] = s.vocab;
  config["max_position_embeddings"] = s.positions;
  config["layer_norm_eps"] = s.norm_eps;
  config["hidden_act"] = activation_name(s.activation);
  config["attention_bias"] = s.qkv_bias;
  config["tie_word_embeddings"] = s.tied_head;
  config["use_parallel_residual"] = s.parallel_block;
  write_rope(s, config);
  config.erase("partial_rotary_factor");
  config["rotary_emb_base"] = s.rope_theta;
  config["rotary_pct"] = rotary_share(s);
}

std::vector<TensorPart> qkv_parts(const ArchSpec& s, const std::string& name) {
  std::vector<TensorPart> parts;
  for (int64_t which = 0; which < 3; ++which)
    for (int64_t head = 0; head < s.heads; ++head)
      parts.push_back({.name = name,
                       .row = (which * s.heads + head) * s.head_size,
                       .rows = s.head_size,
                       .their_row = (head * 3 + which) * s.head_size,
                       .their_rows = s.qkv_width()});
  return parts;
}

std::vector<TensorPart> parts(const ArchSpec& s, std::string_view ours) {
  const auto [layer, rest] = layer_name(ours);
  if (layer < 0) {
    if (rest == "embedding.weight") return {{"gpt_neox.embed_in.weight"}};
    if (rest == "head.weight") return {{"embed_out.weight"}};
    return {{fmt::format("gpt_neox.final_layer_norm{}", rest.substr(rest.rfind('.')))}};
  }
  struct Row {
    std::string_view ours, theirs;
  };
  constexpr Row kRows[] = {
      {"attention_norm", "input_layernorm"},     {"attention.qkv", "attention.query_key_value"},
      {"attention.out", "attention.dense"},      {"ffn_norm", "post_attention_layernorm"},
      {"ffn.up", "mlp.dense_h_to_4h"},           {"ffn.down", "mlp.dense_4h_to_h"},
  };
  const size_t dot = rest.rfind('.');
  for (const Row& row : kRows) {
    if (row.ours != rest.substr(0, dot)) continue;
    const std::string name = fmt::format("gpt_neox.layers.{}.{}{}", layer, row.theirs, rest.substr(dot));
    if (row.ours == "attention.qkv") return qkv_parts(s, name);
    return {{name}};
  }
  ESP_CHECK(false, "no GPT-NeoX name for {}", ours);
}

// The causal mask and the rotary frequencies that old files carry as buffers.
bool ignored(std::string_view name) {
  return name.ends_with(".attention.bias") || name.ends_with(".attention.masked_bias") ||
         name.ends_with("rotary_emb.inv_freq");
}

}  // namespace

extern const Family kGptNeoxFamily;
const Family kGptNeoxFamily = {"gpt_neox", "GPTNeoXForCausalLM",
                               "GPT-NeoX, Pythia: parallel block, heads that turn in part", read, write, parts,
                               ignored};

}  // namespace espalier
