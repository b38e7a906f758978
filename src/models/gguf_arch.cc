#include "models/gguf_arch.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/json_value.h"
#include "formats/gguf_blocks.h"

namespace espalier {
namespace {

using Key = GgufArch::Key;
using Name = GgufArch::TensorName;

constexpr Key kLlamaKeys[] = {
    {"block_count", "num_hidden_layers"},
    {"context_length", "max_position_embeddings"},
    {"embedding_length", "hidden_size"},
    {"feed_forward_length", "intermediate_size"},
    {"attention.head_count", "num_attention_heads"},
    {"attention.head_count_kv", "num_key_value_heads", Key::kInteger, false},
    {"attention.key_length", "head_dim", Key::kInteger, false},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps", Key::kNumber},
    {"rope.freq_base", "rope_theta", Key::kNumber, false},
    {"attention.sliding_window", "sliding_window", Key::kInteger, false},
    {"rope.freq_base_swa", "rope_local_base_freq", Key::kNumber, false},           // Gemma 3
    {"attn_logit_softcapping", "attn_logit_softcapping", Key::kNumber, false},     // Gemma 2
    {"final_logit_softcapping", "final_logit_softcapping", Key::kNumber, false},   // Gemma 2
    {"attention.scale", "attention_multiplier", Key::kNumber, false},              // Granite, and the next three
    {"embedding_scale", "embedding_multiplier", Key::kNumber, false},
    {"residual_scale", "residual_multiplier", Key::kNumber, false},
    {"logit_scale", "logits_scaling", Key::kNumber, false},
};

constexpr Key kGpt2Keys[] = {
    {"block_count", "n_layer"},
    {"context_length", "n_positions"},
    {"embedding_length", "n_embd"},
    {"feed_forward_length", "n_inner"},
    {"attention.head_count", "n_head"},
    {"attention.layer_norm_epsilon", "layer_norm_epsilon", Key::kNumber},
};

constexpr Key kNeoxKeys[] = {
    {"block_count", "num_hidden_layers"},
    {"context_length", "max_position_embeddings"},
    {"embedding_length", "hidden_size"},
    {"feed_forward_length", "intermediate_size"},
    {"attention.head_count", "num_attention_heads"},
    {"attention.layer_norm_epsilon", "layer_norm_eps", Key::kNumber},
    {"rope.freq_base", "rotary_emb_base", Key::kNumber, false},
    {"use_parallel_residual", "use_parallel_residual", Key::kBool, false},
};

constexpr Name kLlamaOuter[] = {
    {"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}};
constexpr Name kLlamaBlock[] = {
    {"attn_q", "self_attn.q_proj"},      {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},      {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"}, {"attn_k_norm", "self_attn.k_norm"},
    {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
};
constexpr Name kPhiBlock[] = {{"attn_qkv", "self_attn.qkv_proj"},
                              {"attn_output", "self_attn.o_proj"},
                              {"ffn_up", "mlp.gate_up_proj"},
                              {"ffn_down", "mlp.down_proj"}};
constexpr Name kPreNorms[] = {{"attn_norm", "input_layernorm"}, {"ffn_norm", "post_attention_layernorm"}};
constexpr Name kPostNorms[] = {{"post_attention_norm", "post_attention_layernorm"},
                               {"post_ffw_norm", "post_feedforward_layernorm"}};
constexpr Name kGemmaNorms[] = {{"attn_norm", "input_layernorm"},
                                {"post_attention_norm", "post_attention_layernorm"},
                                {"ffn_norm", "pre_feedforward_layernorm"},
                                {"post_ffw_norm", "post_feedforward_layernorm"}};

constexpr Name kGpt2Outer[] = {{"token_embd", "transformer.wte"},
                               {"position_embd", "transformer.wpe"},
                               {"output_norm", "transformer.ln_f"},
                               {"output", "lm_head"}};
constexpr Name kGpt2Block[] = {{"attn_qkv", "attn.c_attn"}, {"attn_output", "attn.c_proj"},
                               {"ffn_up", "mlp.c_fc"},      {"ffn_down", "mlp.c_proj"},
                               {"attn_norm", "ln_1"},       {"ffn_norm", "ln_2"}};

constexpr Name kNeoxOuter[] = {{"token_embd", "gpt_neox.embed_in"},
                               {"output_norm", "gpt_neox.final_layer_norm"},
                               {"output", "embed_out"}};
constexpr Name kNeoxBlock[] = {
    {"attn_qkv", "attention.query_key_value"}, {"attn_output", "attention.dense"},
    {"ffn_up", "mlp.dense_h_to_4h"},           {"ffn_down", "mlp.dense_4h_to_h"},
    {"attn_norm", "input_layernorm"},          {"ffn_norm", "post_attention_layernorm"}};

std::string prefix_of(const GgufFile& file) {
  return std::string(file.metadata().need_text("general.architecture")) + ".";
}

int64_t head_size(const Json& config) {
  const auto given = config.find("head_dim");
  const int64_t heads = config.at("num_attention_heads");
  if (given != config.end()) return given->get<int64_t>();
  return heads > 0 ? config.at("hidden_size").get<int64_t>() / heads : 0;
}

/// The scaling of Llama 3 is in the file as a divisor for each frequency. Only the published rule is known to us: the
/// numbers must be the rule's.
void read_rope_factors(const GgufFile& file, const GgufTensor& tensor, Json& config) {
  RopeScaling scaling{.kind = RopeScaling::Kind::kLlama3};
  scaling.original_positions =
      file.metadata().integer(prefix_of(file) + "rope.scaling.original_context_length").value_or(8192);
  std::vector<float> factors(size_t(tensor.shape.size()));
  dequantise(tensor.type, file.data(tensor).data(), tensor.shape.size(), factors.data(), file.path());
  for (const float f : factors) scaling.factor = std::max(scaling.factor, double(f));
  const double theta = config.value("rope_theta", 10000.0);
  for (size_t j = 0; j < factors.size(); ++j) {
    const double expected = llama3_rope_divisor(theta, double(j) / double(factors.size()), scaling);
    if (!(std::abs(factors[j] - expected) <= 1e-4 * expected))
      throw error(Code::kUnsupported, "reading {}: rope_freqs.weight holds {} for frequency {}; Llama 3's rule, the "
                  "only one that is known for this tensor, gives {}", file.path(), factors[j], j, expected);
  }
  if (scaling.factor == 1) return;
  config["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", scaling.factor},
                            {"low_freq_factor", scaling.low_freq_factor},
                            {"high_freq_factor", scaling.high_freq_factor},
                            {"original_max_position_embeddings", scaling.original_positions}};
}

void read_rope(const GgufFile& file, Json& config) {
  const GgufMetadata& m = file.metadata();
  const std::string prefix = prefix_of(file);
  if (const GgufTensor* factors = file.find("rope_freqs.weight")) return read_rope_factors(file, *factors, config);
  const std::string type(m.text(prefix + "rope.scaling.type").value_or("none"));
  if (type == "none") return;
  Json scaling = {{"rope_type", type}, {"factor", m.need_number(prefix + "rope.scaling.factor")}};
  if (const auto original = m.integer(prefix + "rope.scaling.original_context_length"))
    scaling["original_max_position_embeddings"] = *original;
  config["rope_scaling"] = scaling;
}

void check_rotary(const GgufFile& file, const Json& config) {
  const GgufMetadata& m = file.metadata();
  const std::string prefix = prefix_of(file);
  const int64_t size = head_size(config);
  for (const char* key : {"rope.dimension_count", "attention.value_length"}) {
    const int64_t found = m.integer(prefix + key).value_or(size);
    if (found != size)
      throw error(Code::kUnsupported, "reading {}: metadata '{}{}' is {}; only the size of a head, {}, is supported",
                  file.path(), prefix, key, found, size);
  }
}

bool has(const GgufFile& file, const char* tensor) { return file.find(tensor) != nullptr; }

/// A head of its own that is byte by byte the embedding is a tied one, written twice.
bool is_tied(const GgufFile& file) {
  const GgufTensor *embedding = file.find("token_embd.weight"), *head = file.find("output.weight");
  if (!head || !embedding) return true;
  const std::span<const std::byte> a = file.data(*embedding), b = file.data(*head);
  return embedding->type == head->type && a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0;
}

void complete_llama(const GgufFile& file, Json& config) {
  check_rotary(file, config);
  read_rope(file, config);
  config["hidden_act"] = "silu";
  config["attention_bias"] = has(file, "blk.0.attn_q.bias");
  config["mlp_bias"] = has(file, "blk.0.ffn_down.bias");
  if (config["model_type"] == "llama" && config.contains("sliding_window")) config["model_type"] = "mistral";
}

void complete_smollm3(const GgufFile& file, Json& config) {
  complete_llama(file, config);
  config["no_rope_layer_interval"] = 4;  // what llama.cpp computes, which the file does not say
}

// llama.cpp's constants for Gemma, by which the files are made: the 27B models alone scale scores by hidden_size /
// heads instead of by the size of a head.
void complete_gemma(const GgufFile& file, Json& config, int64_t layers_of_27b) {
  check_rotary(file, config);
  config["hidden_activation"] = "gelu_pytorch_tanh";
  const bool largest = config.at("num_hidden_layers") == layers_of_27b;
  const int64_t heads = config.at("num_attention_heads"), width = config.at("hidden_size");
  config["query_pre_attn_scalar"] = largest && heads > 0 ? width / heads : head_size(config);
  config["attention_bias"] = false;
}

void complete_gemma2(const GgufFile& file, Json& config) { complete_gemma(file, config, 46); }

void complete_gemma3(const GgufFile& file, Json& config) {
  complete_gemma(file, config, 62);
  read_rope(file, config);
  config.emplace("rope_local_base_freq", 10000.0);
  config["sliding_window_pattern"] = 6;
}

void complete_phi3(const GgufFile& file, Json& config) {
  const int64_t size = head_size(config);
  const int64_t rotary = file.metadata().integer(prefix_of(file) + "rope.dimension_count").value_or(size);
  if (rotary != size && size > 0) config["partial_rotary_factor"] = double(rotary) / double(size);
  read_rope(file, config);
  config["hidden_act"] = "silu";
}

void complete_gpt2(const GgufFile&, Json& config) { config["activation_function"] = "gelu_new"; }

void complete_neox(const GgufFile& file, Json& config) {
  const int64_t size = head_size(config);
  const int64_t rotary = file.metadata().integer(prefix_of(file) + "rope.dimension_count").value_or(size);
  config["rotary_pct"] = size > 0 ? double(rotary) / double(size) : 1.0;
  config["hidden_act"] = "gelu";
}

// A new architecture is one row here.
constexpr GgufArch kArchs[] = {
    {.name = "llama", .model_type = "llama", .layer_prefix = "model.layers.", .keys = kLlamaKeys, .outer = kLlamaOuter,
     .block = kLlamaBlock, .norms = kPreNorms, .rotary_pairs = true, .complete = complete_llama},
    {.name = "gpt2", .model_type = "gpt2", .layer_prefix = "transformer.h.", .keys = kGpt2Keys, .outer = kGpt2Outer,
     .block = kGpt2Block, .conv1d = true, .complete = complete_gpt2},
    {.name = "gptneox", .model_type = "gpt_neox", .layer_prefix = "gpt_neox.layers.", .keys = kNeoxKeys,
     .outer = kNeoxOuter, .block = kNeoxBlock, .joint_qkv = true, .complete = complete_neox},
    {.name = "qwen2", .model_type = "qwen2", .layer_prefix = "model.layers.", .keys = kLlamaKeys, .outer = kLlamaOuter,
     .block = kLlamaBlock, .norms = kPreNorms, .complete = complete_llama},
    {.name = "qwen3", .model_type = "qwen3", .layer_prefix = "model.layers.", .keys = kLlamaKeys, .outer = kLlamaOuter,
     .block = kLlamaBlock, .norms = kPreNorms, .complete = complete_llama},
    {.name = "smollm3", .model_type = "smollm3", .layer_prefix = "model.layers.", .keys = kLlamaKeys,
     .outer = kLlamaOuter, .block = kLlamaBlock, .norms = kPreNorms, .rotary_pairs = true,
     .complete = complete_smollm3},
    {.name = "granite", .model_type = "granite", .layer_prefix = "model.layers.", .keys = kLlamaKeys,
     .outer = kLlamaOuter, .block = kLlamaBlock, .norms = kPreNorms, .rotary_pairs = true, .complete = complete_llama},
    {.name = "olmo2", .model_type = "olmo2", .layer_prefix = "model.layers.", .keys = kLlamaKeys, .outer = kLlamaOuter,
     .block = kLlamaBlock, .norms = kPostNorms, .complete = complete_llama},
    {.name = "phi3", .model_type = "phi3", .layer_prefix = "model.layers.", .keys = kLlamaKeys, .outer = kLlamaOuter,
     .block = kPhiBlock, .norms = kPreNorms, .complete = complete_phi3},
    {.name = "gemma2", .model_type = "gemma2", .layer_prefix = "model.layers.", .keys = kLlamaKeys,
     .outer = kLlamaOuter, .block = kLlamaBlock, .norms = kGemmaNorms, .norms_plus_one = true,
     .complete = complete_gemma2},
    {.name = "gemma3", .model_type = "gemma3_text", .layer_prefix = "model.layers.", .keys = kLlamaKeys,
     .outer = kLlamaOuter, .block = kLlamaBlock, .norms = kGemmaNorms, .norms_plus_one = true,
     .complete = complete_gemma3},
};

void read_keys(const GgufFile& file, const GgufArch& arch, Json& config) {
  const GgufMetadata& m = file.metadata();
  for (const Key& key : arch.keys) {
    const std::string name = std::string(arch.name) + "." + key.gguf;
    if (!key.required && !m.find(name)) continue;
    if (key.kind == Key::kInteger) config[key.config] = m.need_integer(name);
    if (key.kind == Key::kNumber) config[key.config] = m.need_number(name);
    if (key.kind == Key::kBool) config[key.config] = m.boolean(name).value_or(false);
  }
}

/// "attn_q.weight" to "attn_q" and ".weight".
std::pair<std::string_view, std::string_view> without_kind(std::string_view name) {
  for (const std::string_view kind : {std::string_view(".weight"), std::string_view(".bias")})
    if (name.ends_with(kind)) return {name.substr(0, name.size() - kind.size()), kind};
  return {name, {}};
}

/// Between the two namings, of which `from` and `to` are the sides.
std::optional<std::string> renamed(const GgufArch& arch, std::string_view given, const char* Name::*from,
                                   const char* Name::*to) {
  constexpr std::string_view kBlock = "blk.";
  const bool to_config = from == &Name::gguf;
  const std::string_view theirs = to_config ? kBlock : arch.layer_prefix;
  const std::string_view ours = to_config ? std::string_view(arch.layer_prefix) : kBlock;
  auto [name, kind] = without_kind(given);
  std::string result;
  if (name.starts_with(theirs)) {
    const size_t dot = name.find('.', theirs.size());
    const std::string_view layer = name.substr(theirs.size(), dot - theirs.size());
    if (dot == name.npos || layer.empty() || layer.find_first_not_of("0123456789") != layer.npos) return std::nullopt;
    result = fmt::format("{}{}.", ours, layer);
    name.remove_prefix(dot + 1);
    for (const auto& names : {arch.block, arch.norms})
      for (const Name& row : names)
        if (name == row.*from) return result + row.*to + std::string(kind);
    return std::nullopt;
  }
  for (const Name& row : arch.outer)
    if (name == row.*from) return row.*to + std::string(kind);
  return std::nullopt;
}

}  // namespace

const GgufArch* find_gguf_arch(std::string_view name) {
  for (const GgufArch& arch : kArchs)
    if (name == arch.name) return &arch;
  return nullptr;
}

const GgufArch* find_gguf_arch_of(std::string_view model_type) {
  for (const GgufArch& arch : kArchs)
    if (model_type == arch.model_type || (model_type == "mistral" && arch.name == std::string_view("llama")))
      return &arch;
  return nullptr;
}

const GgufArch& need_gguf_arch(const GgufFile& file) {
  const std::string_view name = file.metadata().need_text("general.architecture");
  if (const GgufArch* arch = find_gguf_arch(name)) return *arch;
  std::string known;
  for (const GgufArch& arch : kArchs) known += (known.empty() ? "" : ", ") + std::string(arch.name);
  throw error(Code::kUnsupported, "reading {}: metadata 'general.architecture' is '{}'; those read are {}", file.path(),
              name, known);
}

Json gguf_config(const GgufFile& file) {
  const GgufArch& arch = need_gguf_arch(file);
  const GgufMetadata& m = file.metadata();
  if (const int64_t experts = m.integer(std::string(arch.name) + ".expert_count").value_or(0); experts > 0)
    throw error(Code::kUnsupported, "reading {}: a mixture of {} experts is not supported", file.path(), experts);
  Json config = {{"model_type", arch.model_type}};
  read_keys(file, arch, config);
  const GgufTensor* embedding = file.find("token_embd.weight");
  if (!embedding || embedding->shape.rank() != 2)
    throw error(Code::kBadData, "reading {}: tensor token_embd.weight is missing or no matrix; the file holds no whole "
                "model", file.path());
  config["vocab_size"] = embedding->shape[0];
  config["tie_word_embeddings"] = is_tied(file);
  for (const auto& [key, field] : {std::pair{"tokenizer.ggml.bos_token_id", "bos_token_id"},
                                   std::pair{"tokenizer.ggml.eos_token_id", "eos_token_id"}})
    if (const auto id = m.integer(key)) config[field] = *id;
  arch.complete(file, config);
  return config;
}

double llama3_rope_divisor(double theta, double exponent, const RopeScaling& s) {
  constexpr double kPi = 3.14159265358979323846;
  const double wavelength = 2 * kPi * std::pow(theta, exponent);
  const double blend = (double(s.original_positions) / wavelength - s.low_freq_factor) /
                       (s.high_freq_factor - s.low_freq_factor);
  const double kept = std::clamp(blend, 0.0, 1.0);
  return 1 / ((1 - kept) / s.factor + kept);
}

std::optional<std::string> gguf_to_config_name(const GgufArch& arch, std::string_view name) {
  return renamed(arch, name, &Name::gguf, &Name::config);
}

std::optional<std::string> config_to_gguf_name(const GgufArch& arch, std::string_view name) {
  return renamed(arch, name, &Name::config, &Name::gguf);
}

}  // namespace espalier
