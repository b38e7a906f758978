// GPT-2 (Radford et al. 2019): LayerNorm, learned positions, GELU, biases everywhere, tied head. Its Hugging Face
// weights are Conv1D, stored [in, out].
#include <algorithm>

#include "base/error.h"
#include "base/json_value.h"
#include "models/config_fields.h"
#include "models/registry.h"

namespace espalier {
namespace {

ArchSpec read(const Json& config, const std::string& what) {
  ArchSpec s;
  s.layers = json_get<int64_t>(config, "n_layer", what);
  s.width = json_get<int64_t>(config, "n_embd", what);
  s.heads = s.kv_heads = json_get<int64_t>(config, "n_head", what);
  if (s.heads < 1 || s.width % s.heads != 0)
    throw error(Code::kBadData, "{}: n_embd {} is not a multiple of n_head {}", what, s.width, s.heads);
  s.head_size = s.width / s.heads;
  // validate() refuses widths far below the bound, which only keeps the product from overflowing.
  s.ffn = json_get_or<int64_t>(config, "n_inner", 4 * std::min(s.width, int64_t{1} << 40), what);
  s.vocab = json_get<int64_t>(config, "vocab_size", what);
  s.positions = json_get_or<int64_t>(config, "n_positions", 1024, what);
  s.norm_eps = json_get_or<double>(config, "layer_norm_epsilon", 1e-5, what);
  s.activation = read_activation(config, "activation_function", "gelu_new", what);
  s.qkv_bias = s.out_bias = s.ffn_bias = true;
  s.learned_positions = true;
  s.tied_head = json_get_or<bool>(config, "tie_word_embeddings", true, what);
  if (!json_get_or<bool>(config, "scale_attn_weights", true, what))
    throw error(Code::kUnsupported, "{}: scale_attn_weights false is not supported", what);
  for (const char* key : {"scale_attn_by_inverse_layer_idx", "add_cross_attention"})
    if (json_get_or<bool>(config, key, false, what))
      throw error(Code::kUnsupported, "{}: {} true is not supported", what, key);
  return s;
}

void write(const ArchSpec& s, OrderedJson& config) {
  config["n_layer"] = s.layers;
  config["n_embd"] = s.width;
  config["n_head"] = s.heads;
  config["n_inner"] = s.ffn;
  config["vocab_size"] = s.vocab;
  config["n_positions"] = s.positions;
  config["n_ctx"] = s.positions;
  config["layer_norm_epsilon"] = s.norm_eps;
  config["activation_function"] = s.activation == Activation::kGeluTanh ? "gelu_new" : activation_name(s.activation);
  config["tie_word_embeddings"] = s.tied_head;
  for (const char* key : {"resid_pdrop", "embd_pdrop", "attn_pdrop"}) config[key] = 0.0;
}

std::vector<TensorPart> parts(const ArchSpec&, std::string_view ours) {
  const auto [layer, rest] = layer_name(ours);
  if (layer < 0) {
    if (rest == "embedding.weight") return {{"transformer.wte.weight"}};
    if (rest == "positions.weight") return {{"transformer.wpe.weight"}};
    if (rest == "final_norm.weight") return {{"transformer.ln_f.weight"}};
    if (rest == "final_norm.bias") return {{"transformer.ln_f.bias"}};
    return {{"lm_head.weight"}};
  }
  struct Row {
    std::string_view ours, theirs;
    bool transposed = false;
  };
  constexpr Row kRows[] = {
      {"attention_norm.weight", "ln_1.weight"},
      {"attention_norm.bias", "ln_1.bias"},
      {"attention.qkv.weight", "attn.c_attn.weight", true},
      {"attention.qkv.bias", "attn.c_attn.bias"},
      {"attention.out.weight", "attn.c_proj.weight", true},
      {"attention.out.bias", "attn.c_proj.bias"},
      {"ffn_norm.weight", "ln_2.weight"},
      {"ffn_norm.bias", "ln_2.bias"},
      {"ffn.up.weight", "mlp.c_fc.weight", true},
      {"ffn.up.bias", "mlp.c_fc.bias"},
      {"ffn.down.weight", "mlp.c_proj.weight", true},
      {"ffn.down.bias", "mlp.c_proj.bias"},
  };
  for (const Row& row : kRows)
    if (row.ours == rest) return {{fmt::format("transformer.h.{}.{}", layer, row.theirs), 0, 0, row.transposed}};
  ESP_CHECK(false, "no GPT-2 name for {}", ours);
}

// The causal mask that old files carry as a buffer.
bool ignored(std::string_view name) { return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias"); }

}  // namespace

extern const Family kGpt2Family;
const Family kGpt2Family = {"gpt2", "GPT2LMHeadModel", "GPT-2: LayerNorm, learned positions, GELU, tied head",
                            read,   write,             parts,
                            ignored};

}  // namespace espalier
