// Gemma 2 and Gemma 3's text models (Google 2024, 2025): norms before and after each sublayer that multiply by 1 + w,
// embeddings times sqrt(width), gated GELU, layers with and without a sliding window; Gemma 2 with soft caps, Gemma 3
// with QK-norm and another rotary base in the windowed layers.
#include <cmath>

#include "base/error.h"
#include "base/json_value.h"
#include "models/config_fields.h"
#include "models/llama_names.h"

namespace espalier {
namespace {

constexpr ConfigDefaults kGemma2 = {.positions = 8192, .head_size = 256, .tied_head = true,
                                    .activation_key = "hidden_activation", .activation = "gelu_pytorch_tanh"};
constexpr ConfigDefaults kGemma3 = {.rope_theta = 1e6, .positions = 131072, .head_size = 256, .tied_head = true,
                                    .activation_key = "hidden_activation", .activation = "gelu_pytorch_tanh"};

// A soft cap that the file does not mention has the family's default; one that is null there is none.
double read_softcap(const Json& config, const char* key, double fallback, const std::string& what) {
  return config.contains(key) ? json_get_or<double>(config, key, 0, what) : fallback;
}

void read_common(const Json& config, ArchSpec& s, const std::string& what) {
  refuse_true(config, what, {"mlp_bias"});
  s.norm_offset = 1;
  s.post_norm = true;
  s.embedding_scale = std::sqrt(double(s.width));
  s.qkv_bias = s.out_bias = json_get_or<bool>(config, "attention_bias", false, what);
  const double scalar = json_get_or<double>(config, "query_pre_attn_scalar", 256, what);
  if (!(scalar > 0)) throw error(Code::kBadData, "{}: query_pre_attn_scalar is {}; expected > 0", what, scalar);
  s.attention_scale = 1 / std::sqrt(scalar);
}

void write_common(const ArchSpec& s, OrderedJson& config) {
  config["hidden_act"] = activation_name(s.activation);
  config["attention_bias"] = s.qkv_bias;
  const double scalar = 1 / (s.attention_scale * s.attention_scale), whole = std::round(scalar);
  if (1 / std::sqrt(whole) == s.attention_scale)
    config["query_pre_attn_scalar"] = int64_t(whole);
  else
    config["query_pre_attn_scalar"] = scalar;
  config["attn_logit_softcapping"] = s.attention_softcap > 0 ? OrderedJson(s.attention_softcap) : OrderedJson(nullptr);
  config["final_logit_softcapping"] = s.logit_softcap > 0 ? OrderedJson(s.logit_softcap) : OrderedJson(nullptr);
  write_windows(s, config);
}

ArchSpec read_gemma2(const Json& config, const std::string& what) {
  ArchSpec s = read_llama_fields(config, what, kGemma2);
  read_common(config, s, what);
  s.attention_softcap = read_softcap(config, "attn_logit_softcapping", 50, what);
  s.logit_softcap = read_softcap(config, "final_logit_softcapping", 30, what);
  read_windows(config, s, what, [](int64_t layer) { return layer % 2 == 0; });
  return s;
}

void write_gemma2(const ArchSpec& s, OrderedJson& config) {
  write_llama_fields(s, config, kGemma2);
  write_common(s, config);
}

// transformers 5 has an object of rotary parameters for each kind of layer.
void read_two_ropes(const Json& config, ArchSpec& s, const std::string& what) {
  const auto parameters = config.find("rope_parameters");
  s.local_rope_theta = json_get_or<double>(config, "rope_local_base_freq", 10000, what);
  if (parameters == config.end() || !parameters->is_object()) return;
  const auto object = [&](const char* key) {
    const auto found = parameters->find(key);
    if (found == parameters->end()) return Json::object();
    if (!found->is_object())
      throw error(Code::kBadData, "{} rope_parameters: \"{}\" is {}; expected an object", what, key, found->dump());
    return *found;
  };
  const Json full = object("full_attention"), local = object("sliding_attention");
  const std::string where = what + " rope_parameters";
  s.rope_theta = json_get_or<double>(full, "rope_theta", 1e6, where);
  s.local_rope_theta = json_get_or<double>(local, "rope_theta", 10000, where);
  if (!(s.rope_theta > 0)) throw error(Code::kBadData, "{}: rope_theta is {}; expected > 0", where, s.rope_theta);
  s.rope_scaling = read_rope_scaling(full, s.positions, where);
  if (read_rope_scaling(local, s.positions, where).kind != RopeScaling::Kind::kNone)
    throw error(Code::kUnsupported, "{}: rope scaling of \"sliding_attention\" is not supported; only that of "
                "\"full_attention\" is", where);
}

ArchSpec read_gemma3(const Json& config, const std::string& what) {
  ArchSpec s = read_llama_fields(config, what, kGemma3);
  read_common(config, s, what);
  read_two_ropes(config, s, what);
  s.qk_norm = QkNorm::kHeads;
  // transformers reads attn_logit_softcapping and does not apply it here.
  s.logit_softcap = read_softcap(config, "final_logit_softcapping", 0, what);
  if (read_softcap(config, "attn_logit_softcapping", 0, what) != 0)
    throw error(Code::kUnsupported, "{}: \"attn_logit_softcapping\" is not supported for gemma3_text; take it out, as "
                "transformers ignores it", what);
  const int64_t pattern = json_get_or<int64_t>(config, "sliding_window_pattern", 6, what);
  if (pattern < 1)
    throw error(Code::kBadData, "{}: sliding_window_pattern is {}; expected 1 or more", what, pattern);
  read_windows(config, s, what, [&](int64_t layer) { return (layer + 1) % pattern != 0; });
  return s;
}

void write_gemma3(const ArchSpec& s, OrderedJson& config) {
  write_llama_fields(s, config, kGemma3);
  config["rope_local_base_freq"] = s.local_rope_theta;
  write_common(s, config);
}

}  // namespace

extern const Family kGemma2Family, kGemma3Family;
const Family kGemma2Family = {"gemma2", "Gemma2ForCausalLM",
                              "Gemma 2: soft caps, norms around each sublayer, every other layer windowed",
                              read_gemma2, write_gemma2, llama_parts, llama_ignored};
const Family kGemma3Family = {"gemma3_text", "Gemma3ForCausalLM",
                              "Gemma 3, text: five windowed layers to one that sees all, QK-norm, two rotary bases",
                              read_gemma3, write_gemma3, llama_parts, llama_ignored};

}  // namespace espalier
