// ArchSpec: what a decoder is made of. One decoder reads it; a model family is a row of the registry that fills it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/elementwise.h"

namespace espalier {

/// How rotary frequencies are stretched to longer contexts.
struct RopeScaling {
  enum class Kind { kNone, kLinear, kLlama3 } kind = Kind::kNone;
  double factor = 1;
  double low_freq_factor = 1, high_freq_factor = 4;  ///< llama3
  int64_t original_positions = 8192;                 ///< llama3
};

struct ArchSpec {
  std::string family;  ///< row of the registry: "gpt2", "llama"
  int64_t layers = 0, width = 0, heads = 0, kv_heads = 0, head_size = 0, ffn = 0;
  int64_t vocab = 0, positions = 0;  ///< positions: the longest context

  bool rms_norm = false, norm_bias = true;
  double norm_eps = 1e-5;
  Activation activation = Activation::kGeluTanh;
  bool gated_ffn = false;
  bool qkv_bias = false, out_bias = false, ffn_bias = false;
  bool learned_positions = false;
  double rope_theta = 0;  ///< 0: no rotary embedding
  RopeScaling rope_scaling;
  bool tied_head = false;

  // MegaScale's choices (Jiang et al. 2024, section 3.1), fields of any architecture.
  bool parallel_block = false;  ///< y = x + FFN(norm(x)) + attention(norm(x)), one shared norm
  int64_t window = 0;           ///< a row sees the last `window` positions, itself included; 0: all

  std::optional<int64_t> bos, eos;

  int64_t query_width() const { return heads * head_size; }
  int64_t kv_width() const { return kv_heads * head_size; }
  int64_t qkv_width() const { return query_width() + 2 * kv_width(); }
  int64_t up_width() const { return gated_ffn ? 2 * ffn : ffn; }
  int64_t rotary() const { return rope_theta > 0 ? head_size : 0; }
};

/// Throws Error kBadData naming the field when the numbers cannot make a model (zero, not divisible, absurd).
void validate(const ArchSpec& spec, const std::string& what);

/// Numbers in all weights; `embeddings` counts tokens and learned positions too, a tied head once.
int64_t parameter_count(const ArchSpec& spec);

/// Names, shapes and roles of all weights, in order.
struct WeightInfo {
  std::string name;
  int64_t rows = 0;  ///< 0 for a vector
  int64_t cols = 0;
};
std::vector<WeightInfo> weight_list(const ArchSpec& spec);

/// How many keys a query sees on average, for a sequence of T: the term in which FLOP conventions differ.
enum class AttentionCount { kFull, kCausal };  ///< T, or (T + 1) / 2 (windowed: what the window leaves)
double mean_keys(const ArchSpec& spec, int64_t rows, AttentionCount count);

/// Floating-point operations a token of a training step (forward and backward, no recomputation):
///   3 * (2 * weights in products + 4 * L * H * D * mean_keys); the embedding lookup counts nothing, the head does.
double train_flops_per_token(const ArchSpec& spec, int64_t rows, AttentionCount count);

}  // namespace espalier
