// Llama 2 and 3 (Touvron et al. 2023; Meta 2024), and what differs from it in a field or two: Mistral (Jiang et al.
// 2023), a sliding window; Granite (IBM 2024), four scales; SmolLM3 (Hugging Face 2025), layers whose heads do not
// turn; Phi-3 (Microsoft 2024), fused projections and heads that turn in part; OLMo 2 (Ai2 2024), norms after the
// sublayers instead of before them and over all of the queries and keys.

#include "base/error.h"
#include "base/json_value.h"
#include "models/config_fields.h"
#include "models/llama_names.h"

namespace espalier {
namespace {

ArchSpec read_llama(const Json& config, const std::string& what) {
  ArchSpec s = read_llama_fields(config, what);
  read_biases(config, s, what);
  return s;
}

void write_llama(const ArchSpec& s, OrderedJson& config) {
  write_llama_fields(s, config);
  write_biases(s, config);
}

ArchSpec read_mistral(const Json& config, const std::string& what) {
  refuse_true(config, what, {"attention_bias", "mlp_bias"});
  ArchSpec s = read_llama_fields(config, what);
  read_windows(config, s, what, [](int64_t) { return true; });
  return s;
}

// No list of layers: transformers' Mistral has the window in all of them.
void write_mistral(const ArchSpec& s, OrderedJson& config) {
  write_llama_fields(s, config);
  config["sliding_window"] = s.window > 0 ? OrderedJson(s.window) : OrderedJson(nullptr);
}

ArchSpec read_granite(const Json& config, const std::string& what) {
  ArchSpec s = read_llama(config, what);
  s.embedding_scale = json_get_or<double>(config, "embedding_multiplier", 1, what);
  s.residual_scale = json_get_or<double>(config, "residual_multiplier", 1, what);
  s.attention_scale = json_get_or<double>(config, "attention_multiplier", 1, what);
  s.logit_divisor = json_get_or<double>(config, "logits_scaling", 1, what);
  if (!(s.attention_scale > 0))
    throw error(Code::kBadData, "{}: attention_multiplier is {}; expected a number above 0", what, s.attention_scale);
  return s;
}

void write_granite(const ArchSpec& s, OrderedJson& config) {
  write_llama(s, config);
  config["embedding_multiplier"] = s.embedding_scale;
  config["residual_multiplier"] = s.residual_scale;
  config["attention_multiplier"] = s.attention_scale;
  config["logits_scaling"] = s.logit_divisor;
}

constexpr ConfigDefaults kSmolLm3 = {.rope_theta = 2e6, .positions = 32768, .tied_head = true};

ArchSpec read_smollm3(const Json& config, const std::string& what) {
  ArchSpec s = read_llama_fields(config, what, kSmolLm3);
  read_biases(config, s, what);
  const auto list = config.find("no_rope_layers");
  const int64_t interval = json_get_or<int64_t>(config, "no_rope_layer_interval", 4, what);
  if (interval < 1) throw error(Code::kBadData, "{}: no_rope_layer_interval is {}; expected 1 or more", what, interval);
  const bool listed = list != config.end() && !list->is_null();
  if (listed && (!list->is_array() || int64_t(list->size()) != s.layers))
    throw error(Code::kBadData, "{}: \"no_rope_layers\" is {}; expected a list of {}, one a layer", what,
                list->dump().substr(0, 60), s.layers);
  for (int64_t i = 0; i < std::min<int64_t>(s.layers, 10'000); ++i) {
    const Json turns = listed ? (*list)[size_t(i)] : Json((i + 1) % interval != 0 ? 1 : 0);
    if (turns != 0 && turns != 1)
      throw error(Code::kBadData, "{}: no_rope_layers[{}] is {}; expected 1 (turns) or 0", what, i, turns.dump());
    s.no_rope.push_back(turns == 0);
  }
  if (!json_get_or<bool>(config, "use_sliding_window", false, what)) return s;
  read_windows(config, s, what, [&](int64_t layer) { return bool(s.no_rope[size_t(layer)]); });
  return s;
}

void write_smollm3(const ArchSpec& s, OrderedJson& config) {
  write_llama_fields(s, config, kSmolLm3);
  write_biases(s, config);
  OrderedJson turns = OrderedJson::array();
  for (int64_t i = 0; i < s.layers; ++i) turns.push_back(s.turns(i) ? 1 : 0);
  config["no_rope_layers"] = turns;
  config["use_sliding_window"] = s.window > 0;
  write_windows(s, config);
}

constexpr ConfigDefaults kPhi3 = {.norm_eps = 1e-5, .positions = 4096};

ArchSpec read_phi3(const Json& config, const std::string& what) {
  refuse_true(config, what, {"attention_bias", "mlp_bias"});
  ArchSpec s = read_llama_fields(config, what, kPhi3);
  if (s.rope_scaling.kind != RopeScaling::Kind::kNone)  // transformers takes even "yarn" for longrope here
    throw error(Code::kUnsupported, "{}: no rope scaling is supported for phi3; use a model of the short context "
                "(4k), which has none", what);
  read_windows(config, s, what, [](int64_t) { return true; });
  return s;
}

void write_phi3(const ArchSpec& s, OrderedJson& config) {
  write_llama_fields(s, config, kPhi3);
  config["sliding_window"] = s.window > 0 ? OrderedJson(s.window) : OrderedJson(nullptr);
}

constexpr ConfigDefaults kOlmo2 = {.norm_eps = 1e-5};

ArchSpec read_olmo2(const Json& config, const std::string& what) {
  refuse_true(config, what, {"mlp_bias"});
  ArchSpec s = read_llama_fields(config, what, kOlmo2);
  s.qkv_bias = s.out_bias = json_get_or<bool>(config, "attention_bias", false, what);
  s.pre_norm = false;
  s.post_norm = true;
  s.qk_norm = QkNorm::kWhole;
  return s;
}

void write_olmo2(const ArchSpec& s, OrderedJson& config) {
  write_llama_fields(s, config, kOlmo2);
  config["attention_bias"] = s.qkv_bias;
}

}  // namespace

extern const Family kLlamaFamily, kMistralFamily, kGraniteFamily, kSmolLm3Family, kPhi3Family, kOlmo2Family;
const Family kLlamaFamily = {"llama", "LlamaForCausalLM",
                             "Llama 2/3: RMSNorm, rotary positions, SwiGLU, grouped heads",
                             read_llama, write_llama, llama_parts, llama_ignored};
const Family kMistralFamily = {"mistral", "MistralForCausalLM", "Mistral: Llama with a sliding window",
                               read_mistral, write_mistral, llama_parts, llama_ignored};
const Family kGraniteFamily = {"granite", "GraniteForCausalLM", "Granite 3: Llama with four scales",
                               read_granite, write_granite, llama_parts, llama_ignored};
const Family kSmolLm3Family = {"smollm3", "SmolLM3ForCausalLM", "SmolLM3: Llama, every fourth layer without positions",
                               read_smollm3, write_smollm3, llama_parts, llama_ignored};
const Family kPhi3Family = {"phi3", "Phi3ForCausalLM", "Phi-3: Llama with fused projections, sliding window",
                            read_phi3, write_phi3, fused_llama_parts, llama_ignored};
const Family kOlmo2Family = {"olmo2", "Olmo2ForCausalLM", "OLMo 2: Llama with norms after the sublayers, QK-norm",
                             read_olmo2, write_olmo2, llama_parts, llama_ignored};

}  // namespace espalier
