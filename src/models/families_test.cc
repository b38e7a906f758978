// Each family's config.json as its makers published it: older fields, fields left out, defaults.
#include <cmath>

#include <gtest/gtest.h>

#include "base/json_value.h"
#include "formats/test_folder.h"
#include "models/golden_model.h"
#include "models/registry.h"
#include "models/rope_table.h"

namespace espalier {
namespace {

Json golden_config(const std::string& name) {
  return read_json_file(golden_folder(name) + "/config.json");
}

ArchSpec spec_of(const char* text) { return read_config(Json::parse(text), "config.json"); }

TEST(Families, Qwen25) {
  const ArchSpec s = spec_of(R"({"model_type": "qwen2", "hidden_act": "silu", "hidden_size": 896,
      "intermediate_size": 4864, "max_position_embeddings": 32768, "max_window_layers": 21, "num_attention_heads": 14,
      "num_hidden_layers": 24, "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
      "sliding_window": 32768, "tie_word_embeddings": true, "use_sliding_window": false, "vocab_size": 151936})");
  EXPECT_TRUE(s.qkv_bias && !s.out_bias && !s.ffn_bias && s.tied_head && s.gated_ffn && s.rms_norm);
  EXPECT_EQ(s.head_size, 64);
  EXPECT_EQ(s.window, 0);
  EXPECT_EQ(parameter_count(s), 494'032'768);  // as its model card counts: 0.49 billion
}

TEST(Families, Qwen3) {
  const ArchSpec s = spec_of(R"({"model_type": "qwen3", "attention_bias": false, "head_dim": 128, "hidden_size": 1024,
      "intermediate_size": 3072, "max_position_embeddings": 40960, "num_attention_heads": 16, "num_hidden_layers": 28,
      "num_key_value_heads": 8, "rope_scaling": null, "rope_theta": 1000000, "sliding_window": null,
      "tie_word_embeddings": true, "use_sliding_window": false, "vocab_size": 151936})");
  EXPECT_EQ(s.qk_norm, QkNorm::kHeads);
  EXPECT_EQ(s.query_width(), 2048);
  EXPECT_EQ(parameter_count(s), 596'049'920);  // 0.6 billion
}

TEST(Families, Pythia) {
  const ArchSpec s = spec_of(R"({"model_type": "gpt_neox", "hidden_act": "gelu", "hidden_size": 512,
      "intermediate_size": 2048, "layer_norm_eps": 1e-05, "max_position_embeddings": 2048, "num_attention_heads": 8,
      "num_hidden_layers": 6, "rotary_emb_base": 10000, "rotary_pct": 0.25, "tie_word_embeddings": false,
      "use_parallel_residual": true, "vocab_size": 50304})");
  EXPECT_EQ(s.rotary(), 16);
  EXPECT_TRUE(s.parallel_block && !s.shared_norm && s.qkv_bias && s.ffn_bias);
  EXPECT_EQ(parameter_count(s), 70'426'624);  // Pythia-70M
}

TEST(Families, Gemma2) {
  const ArchSpec s = spec_of(R"({"model_type": "gemma2", "attention_bias": false, "attn_logit_softcapping": 50.0,
      "final_logit_softcapping": 30.0, "head_dim": 256, "hidden_act": "gelu_pytorch_tanh",
      "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 2304, "intermediate_size": 9216,
      "max_position_embeddings": 8192, "num_attention_heads": 8, "num_hidden_layers": 26, "num_key_value_heads": 4,
      "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06, "rope_theta": 10000.0, "sliding_window": 4096,
      "vocab_size": 256000})");
  EXPECT_EQ(s.attention_softcap, 50);
  EXPECT_EQ(s.logit_softcap, 30);
  EXPECT_EQ(s.window_of(0), 4096);
  EXPECT_EQ(s.window_of(1), 0);
  EXPECT_EQ(s.attention_scale, 1.0 / 16);
  EXPECT_EQ(s.embedding_scale, std::sqrt(2304.0));
  EXPECT_EQ(s.activation, Activation::kGeluTanh);
  EXPECT_TRUE(s.tied_head && s.post_norm && s.norm_offset == 1);
  EXPECT_EQ(parameter_count(s), 2'614'341'888);  // 2.6 billion
}

TEST(Families, Gemma3) {
  const ArchSpec s = spec_of(R"({"model_type": "gemma3_text", "attention_bias": false, "attn_logit_softcapping": null,
      "final_logit_softcapping": null, "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 640,
      "intermediate_size": 2048, "max_position_embeddings": 32768, "num_attention_heads": 4, "num_hidden_layers": 18,
      "num_key_value_heads": 1, "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06, "rope_local_base_freq": 10000.0,
      "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "rope_theta": 1000000.0, "sliding_window": 512,
      "sliding_window_pattern": 6, "vocab_size": 262144})");
  for (int64_t layer = 0; layer < 18; ++layer) EXPECT_EQ(s.window_of(layer), layer % 6 == 5 ? 0 : 512) << layer;
  EXPECT_EQ(rope_frequency(global_rope(s), 0), 1.0 / 8);
  EXPECT_EQ(local_rope(s).theta, 10000);
  EXPECT_EQ(rope_frequency(local_rope(s), 0), 1);
  EXPECT_EQ(s.attention_softcap, 0);
  EXPECT_EQ(s.qk_norm, QkNorm::kHeads);
  EXPECT_EQ(parameter_count(s), 268'098'176);  // Gemma 3 270M
}

TEST(Families, Phi3) {
  const ArchSpec s = spec_of(R"({"model_type": "phi3", "embd_pdrop": 0.0, "hidden_act": "silu", "hidden_size": 3072,
      "intermediate_size": 8192, "max_position_embeddings": 4096, "num_attention_heads": 32, "num_hidden_layers": 32,
      "num_key_value_heads": 32, "original_max_position_embeddings": 4096, "rms_norm_eps": 1e-05,
      "rope_scaling": null, "rope_theta": 10000.0, "sliding_window": 2047, "tie_word_embeddings": false,
      "vocab_size": 32064, "attention_bias": false})");
  EXPECT_EQ(s.window, 2047);
  EXPECT_EQ(s.head_size, 96);
  EXPECT_EQ(parameter_count(s), 3'821'079'552);  // 3.8 billion
}

TEST(Families, Olmo2) {
  const ArchSpec s = spec_of(R"({"model_type": "olmo2", "attention_bias": false, "hidden_act": "silu",
      "hidden_size": 2048, "intermediate_size": 8192, "max_position_embeddings": 4096, "num_attention_heads": 16,
      "num_hidden_layers": 16, "num_key_value_heads": 16, "rms_norm_eps": 1e-06, "rope_theta": 500000,
      "tie_word_embeddings": false, "vocab_size": 100352})");
  EXPECT_EQ(s.qk_norm, QkNorm::kWhole);
  EXPECT_TRUE(!s.pre_norm && s.post_norm);
  EXPECT_EQ(parameter_count(s), 1'484'916'736);  // 1.48 billion
}

TEST(Families, Granite) {
  const ArchSpec s = spec_of(R"({"model_type": "granite", "attention_bias": false, "attention_multiplier": 0.015625,
      "embedding_multiplier": 12.0, "hidden_act": "silu", "hidden_size": 2048, "intermediate_size": 8192,
      "logits_scaling": 8.0, "max_position_embeddings": 131072, "mlp_bias": false, "num_attention_heads": 32,
      "num_hidden_layers": 40, "num_key_value_heads": 8, "residual_multiplier": 0.22, "rms_norm_eps": 1e-05,
      "rope_theta": 10000000.0, "tie_word_embeddings": true, "vocab_size": 49155})");
  EXPECT_EQ(s.attention_scale, 1.0 / 64);
  EXPECT_EQ(s.embedding_scale, 12);
  EXPECT_EQ(s.residual_scale, 0.22);
  EXPECT_EQ(s.logit_divisor, 8);
}

TEST(Families, SmolLm3) {
  const ArchSpec s = spec_of(R"({"model_type": "smollm3", "attention_bias": false, "hidden_act": "silu",
      "hidden_size": 2048, "intermediate_size": 11008, "max_position_embeddings": 65536, "mlp_bias": false,
      "num_attention_heads": 16, "num_hidden_layers": 36, "num_key_value_heads": 4, "no_rope_layer_interval": 4,
      "rms_norm_eps": 1e-06, "rope_theta": 5000000.0, "sliding_window": null, "use_sliding_window": false,
      "vocab_size": 128256})");
  for (int64_t layer = 0; layer < 36; ++layer) EXPECT_EQ(s.turns(layer), layer % 4 != 3) << layer;
  EXPECT_TRUE(s.tied_head);
  EXPECT_EQ(parameter_count(s), 3'075'098'624);  // 3.1 billion
}

struct BadConfig {
  const char* base;
  const char* key;
  Json value;
  Code code;
  const char* part;  ///< of the message
};

TEST(Families, WhatEachCannotRunIsNamed) {
  const BadConfig cases[] = {
      {"mistral", "layer_types", {"sliding_attention", "chunked_attention"}, Code::kUnsupported,
       "layer_types[1] is \"chunked_attention\""},
      {"gemma2", "layer_types", {"full_attention"}, Code::kBadData, "a list of 2, one a layer"},
      {"gemma2", "query_pre_attn_scalar", 0, Code::kBadData, "query_pre_attn_scalar is 0"},
      {"gemma2", "attn_logit_softcapping", -3, Code::kBadData, "soft cap of the attention scores is -3"},
      {"gemma2", "mlp_bias", true, Code::kUnsupported, "\"mlp_bias\" true"},
      {"gemma3", "attn_logit_softcapping", 50, Code::kUnsupported, "attn_logit_softcapping"},
      {"gemma3", "use_bidirectional_attention", true, Code::kUnsupported, "use_bidirectional_attention"},
      {"gemma3", "model_type", "gemma3", Code::kUnsupported, "model of images"},
      {"gemma3", "rope_parameters", {{"sliding_attention", {{"rope_type", "linear"}, {"factor", 2}}}},
       Code::kUnsupported, "\"sliding_attention\""},
      {"gemma3", "rope_parameters", {{"full_attention", 3}}, Code::kBadData, "\"full_attention\" is 3"},
      {"phi3", "rope_parameters", {{"rope_type", "yarn"}, {"factor", 4}}, Code::kUnsupported, "phi3"},
      {"phi3", "rope_parameters", {{"partial_rotary_factor", 1.5}}, Code::kBadData,
       "share of each head that turns is 1.5"},
      {"phi3", "attention_bias", true, Code::kUnsupported, "\"attention_bias\" true"},
      {"mistral", "mlp_bias", true, Code::kUnsupported, "\"mlp_bias\" true"},
      {"granite", "residual_multiplier", 0, Code::kBadData, "scale of the residual branches is 0"},
      {"granite", "attention_multiplier", -1, Code::kBadData, "attention_multiplier is -1"},
      {"granite", "num_local_experts", 8, Code::kUnsupported, "\"num_local_experts\" is 8: mixtures of experts"},
      {"smollm3", "no_rope_layers", {1, 2}, Code::kBadData, "no_rope_layers[1] is 2"},
      {"smollm3", "no_rope_layers", {1, 0, 1}, Code::kBadData, "a list of 2, one a layer"},
      {"olmo2", "clip_qkv", 8, Code::kUnsupported, "clip_qkv"},
      {"qwen3", "head_dim", 7, Code::kBadData, "even head size; found 7"},
      {"gpt_neox", "num_attention_heads", 5, Code::kBadData, "hidden_size 16 is not a multiple"},
      {"llama2", "rope_parameters", {{"rope_type", "yarn"}, {"factor", 4}, {"beta_fast", 0.5}}, Code::kBadData,
       "0 < beta_slow <= beta_fast"},
      {"llama2", "rope_scaling", "linear", Code::kBadData, "\"rope_scaling\" is \"linear\"; expected an object"},
  };
  for (const BadConfig& c : cases) {
    SCOPED_TRACE(fmt::format("{} {}", c.base, c.key));
    Json config = golden_config(c.base);
    if (c.key == std::string("rope_scaling")) config.erase("rope_parameters");
    config[c.key] = c.value;
    expect_error(c.code, c.part, [&] { read_config(config, "config.json"); });
  }
}

TEST(Families, MixturesOfExpertsAreNamed) {
  for (const char* mixture : {"mixtral", "qwen2_moe", "qwen3_moe", "deepseek_v3", "gpt_oss"}) {
    Json config = golden_config("llama2");
    config["model_type"] = mixture;
    expect_error(Code::kUnsupported, "is a mixture of experts, which is not run yet",
                 [&] { read_config(config, "config.json"); });
  }
}

}  // namespace
}  // namespace espalier
