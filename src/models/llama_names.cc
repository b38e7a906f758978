#include "models/llama_names.h"

#include "base/error.h"

namespace espalier {
namespace {

// Their name of a module within a layer; gemma and OLMo 2 use what Llama calls the norm before the feed-forward for the
// one after attention.
std::string module_name(const ArchSpec& s, std::string_view ours) {
  struct Row {
    std::string_view ours, theirs;
  };
  const Row rows[] = {
      {"attention.qkv", "self_attn.qkv_proj"},
      {"attention.q_norm", "self_attn.q_norm"},
      {"attention.k_norm", "self_attn.k_norm"},
      {"attention.out", "self_attn.o_proj"},
      {"ffn.up", "mlp.gate_up_proj"},
      {"ffn.down", "mlp.down_proj"},
      {"attention_norm", "input_layernorm"},
      {"attention_post_norm", "post_attention_layernorm"},
      {"ffn_norm", s.post_norm ? "pre_feedforward_layernorm" : "post_attention_layernorm"},
      {"ffn_post_norm", "post_feedforward_layernorm"},
  };
  for (const Row& row : rows)
    if (row.ours == ours) return std::string(row.theirs);
  ESP_CHECK(false, "no Llama name for {}", ours);
}

}  // namespace

std::vector<TensorPart> fused_llama_parts(const ArchSpec& s, std::string_view ours) {
  const auto [layer, rest] = layer_name(ours);
  if (layer < 0) {
    if (rest == "embedding.weight") return {{"model.embed_tokens.weight"}};
    if (rest == "final_norm.weight") return {{"model.norm.weight"}};
    return {{"lm_head.weight"}};
  }
  const size_t dot = rest.rfind('.');
  return {{fmt::format("model.layers.{}.{}{}", layer, module_name(s, rest.substr(0, dot)), rest.substr(dot))}};
}

std::vector<TensorPart> llama_parts(const ArchSpec& s, std::string_view ours) {
  const auto [layer, rest] = layer_name(ours);
  const std::string prefix = fmt::format("model.layers.{}.", layer);
  const std::string kind(rest.substr(rest.rfind('.')));  // ".weight" or ".bias"
  const int64_t q = s.query_width(), kv = s.kv_width();
  if (rest.starts_with("attention.qkv"))
    return {{prefix + "self_attn.q_proj" + kind, 0, q},
            {prefix + "self_attn.k_proj" + kind, q, kv},
            {prefix + "self_attn.v_proj" + kind, q + kv, kv}};
  if (rest.starts_with("ffn.up") && s.gated_ffn)
    return {{prefix + "mlp.gate_proj" + kind, 0, s.ffn}, {prefix + "mlp.up_proj" + kind, s.ffn, s.ffn}};
  return fused_llama_parts(s, ours);
}

bool llama_ignored(std::string_view name) { return name.ends_with("rotary_emb.inv_freq"); }

}  // namespace espalier
