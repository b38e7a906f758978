// Llama 2 and 3 (Touvron et al. 2023; Meta 2024) and Mistral (Jiang et al. 2023): RMSNorm, rotary positions, SwiGLU,
// grouped key/value heads, no biases; Mistral adds the sliding window.
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "models/registry.h"

namespace espalier {
namespace {

RopeScaling read_scaling(const Json& scaling, const std::string& what) {
  RopeScaling s;
  const char* key = scaling.contains("rope_type") ? "rope_type" : "type";
  const std::string type = json_get_or<std::string>(scaling, key, "default", what);
  if (type == "default") return s;
  if (type == "linear") {
    s.kind = RopeScaling::Kind::kLinear;
  } else if (type == "llama3") {
    s.kind = RopeScaling::Kind::kLlama3;
    s.low_freq_factor = json_get<double>(scaling, "low_freq_factor", what);
    s.high_freq_factor = json_get<double>(scaling, "high_freq_factor", what);
    s.original_positions = json_get<int64_t>(scaling, "original_max_position_embeddings", what);
    if (!(s.high_freq_factor > s.low_freq_factor && s.low_freq_factor > 0 && s.original_positions > 0))
      throw error(Code::kBadData, "{}: rope scaling needs 0 < low_freq_factor < high_freq_factor; found {} and {}",
                  what, s.low_freq_factor, s.high_freq_factor);
  } else {
    throw error(Code::kUnsupported, "{}: rope scaling '{}' is not supported; linear and llama3 are", what, type);
  }
  s.factor = json_get<double>(scaling, "factor", what);
  if (!(s.factor >= 1)) throw error(Code::kBadData, "{}: rope scaling factor is {}; expected >= 1", what, s.factor);
  return s;
}

void read_rope(const Json& config, ArchSpec& s, const std::string& what) {
  // transformers 5 keeps both in "rope_parameters"; before it, theta and scaling were fields of their own.
  const auto parameters = config.find("rope_parameters");
  if (parameters != config.end() && parameters->is_object()) {
    s.rope_theta = json_get_or<double>(*parameters, "rope_theta", 10000.0, what + " rope_parameters");
    s.rope_scaling = read_scaling(*parameters, what + " rope_parameters");
  } else {
    s.rope_theta = json_get_or<double>(config, "rope_theta", 10000.0, what);
    const auto scaling = config.find("rope_scaling");
    if (scaling != config.end() && scaling->is_object())
      s.rope_scaling = read_scaling(*scaling, what + " rope_scaling");
  }
  if (!(s.rope_theta > 0)) throw error(Code::kBadData, "{}: rope_theta is {}; expected > 0", what, s.rope_theta);
}

ArchSpec read(const Json& config, const std::string& what) {
  ArchSpec s;
  s.layers = json_get<int64_t>(config, "num_hidden_layers", what);
  s.width = json_get<int64_t>(config, "hidden_size", what);
  s.heads = json_get<int64_t>(config, "num_attention_heads", what);
  s.kv_heads = json_get_or<int64_t>(config, "num_key_value_heads", s.heads, what);
  if (s.heads < 1) throw error(Code::kBadData, "{}: num_attention_heads is {}", what, s.heads);
  s.head_size = json_get_or<int64_t>(config, "head_dim", s.width / s.heads, what);
  s.ffn = json_get<int64_t>(config, "intermediate_size", what);
  s.vocab = json_get<int64_t>(config, "vocab_size", what);
  s.positions = json_get_or<int64_t>(config, "max_position_embeddings", 2048, what);
  s.rms_norm = true;
  s.norm_bias = false;
  s.norm_eps = json_get_or<double>(config, "rms_norm_eps", 1e-6, what);
  const std::string activation = json_get_or<std::string>(config, "hidden_act", "silu", what);
  if (activation != "silu") throw error(Code::kUnsupported, "{}: hidden_act '{}' is not supported", what, activation);
  s.activation = Activation::kSilu;
  s.gated_ffn = true;
  s.qkv_bias = s.out_bias = json_get_or<bool>(config, "attention_bias", false, what);
  s.ffn_bias = json_get_or<bool>(config, "mlp_bias", false, what);
  s.tied_head = json_get_or<bool>(config, "tie_word_embeddings", false, what);
  read_rope(config, s, what);
  return s;
}

ArchSpec read_mistral(const Json& config, const std::string& what) {
  ArchSpec s = read(config, what);
  s.window = json_get_or<int64_t>(config, "sliding_window", 0, what);
  return s;
}

void write(const ArchSpec& s, OrderedJson& config) {
  config["num_hidden_layers"] = s.layers;
  config["hidden_size"] = s.width;
  config["num_attention_heads"] = s.heads;
  config["num_key_value_heads"] = s.kv_heads;
  config["head_dim"] = s.head_size;
  config["intermediate_size"] = s.ffn;
  config["vocab_size"] = s.vocab;
  config["max_position_embeddings"] = s.positions;
  config["rms_norm_eps"] = s.norm_eps;
  config["hidden_act"] = "silu";
  config["attention_bias"] = s.qkv_bias;
  config["mlp_bias"] = s.ffn_bias;
  config["tie_word_embeddings"] = s.tied_head;
  config["rope_theta"] = s.rope_theta;
  const RopeScaling& scaling = s.rope_scaling;
  if (scaling.kind == RopeScaling::Kind::kLinear)
    config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", scaling.factor}};
  if (scaling.kind == RopeScaling::Kind::kLlama3)
    config["rope_scaling"] = {{"rope_type", "llama3"},
                              {"factor", scaling.factor},
                              {"low_freq_factor", scaling.low_freq_factor},
                              {"high_freq_factor", scaling.high_freq_factor},
                              {"original_max_position_embeddings", scaling.original_positions}};
}

void write_mistral(const ArchSpec& s, OrderedJson& config) {
  write(s, config);
  config["sliding_window"] = s.window > 0 ? OrderedJson(s.window) : OrderedJson(nullptr);
}

std::vector<TensorPart> parts(const ArchSpec& s, std::string_view ours) {
  const auto [layer, rest] = layer_name(ours);
  if (layer < 0) {
    if (rest == "embedding.weight") return {{"model.embed_tokens.weight"}};
    if (rest == "final_norm.weight") return {{"model.norm.weight"}};
    return {{"lm_head.weight"}};
  }
  const std::string prefix = fmt::format("model.layers.{}.", layer);
  const std::string kind(rest.substr(rest.rfind('.')));  // ".weight" or ".bias"
  const int64_t q = s.query_width(), kv = s.kv_width();
  if (rest.starts_with("attention.qkv"))
    return {{prefix + "self_attn.q_proj" + kind, 0, q},
            {prefix + "self_attn.k_proj" + kind, q, kv},
            {prefix + "self_attn.v_proj" + kind, q + kv, kv}};
  if (rest.starts_with("ffn.up"))
    return {{prefix + "mlp.gate_proj" + kind, 0, s.ffn}, {prefix + "mlp.up_proj" + kind, s.ffn, s.ffn}};
  if (rest.starts_with("attention.out")) return {{prefix + "self_attn.o_proj" + kind}};
  if (rest.starts_with("ffn.down")) return {{prefix + "mlp.down_proj" + kind}};
  if (rest.starts_with("attention_norm")) return {{prefix + "input_layernorm" + kind}};
  if (rest.starts_with("ffn_norm")) return {{prefix + "post_attention_layernorm" + kind}};
  ESP_CHECK(false, "no Llama name for {}", ours);
}

bool ignored(std::string_view name) { return name.ends_with("rotary_emb.inv_freq"); }

}  // namespace

extern const Family kLlamaFamily;
const Family kLlamaFamily = {"llama", "LlamaForCausalLM", "Llama 2/3: RMSNorm, rotary positions, SwiGLU, grouped heads",
                             read,    write,              parts,
                             ignored};
extern const Family kMistralFamily;
const Family kMistralFamily = {"mistral",    "MistralForCausalLM", "Mistral: Llama with a sliding window",
                               read_mistral, write_mistral,        parts,
                               ignored};

}  // namespace espalier
