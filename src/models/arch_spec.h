// ArchSpec: what a decoder is made of. One decoder reads it; a model family is a row of the registry that fills it.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/elementwise.h"

namespace espalier {

/// How rotary frequencies are stretched to longer contexts (models/rope_table.h).
struct RopeScaling {
  enum class Kind { kNone, kLinear, kDynamic, kLlama3, kYarn } kind = Kind::kNone;
  double factor = 1;
  int64_t original_positions = 8192;                  ///< llama3, yarn: the context before stretching
  double low_freq_factor = 1, high_freq_factor = 4;   ///< llama3
  double beta_fast = 32, beta_slow = 1;               ///< yarn: turns within the original context that bound the ramp
  double attention_factor = 0;                        ///< yarn: of cosines and sines; 0: from the factor
  double mscale = 0, mscale_all_dim = 0;              ///< yarn: how it follows from the factor; 0: as the paper says
  bool truncate = true;                               ///< yarn: the ramp begins and ends on whole dimensions

  bool operator==(const RopeScaling&) const = default;
};

/// RMSNorm of queries and keys before they turn.
enum class QkNorm {
  kNone,
  kHeads,  ///< of each head by itself, one weight [D] for all (Qwen3, Gemma 3)
  kWhole,  ///< of all heads together, weights [H*D] and [K*D] (OLMo 2)
};

struct ArchSpec {
  std::string family;  ///< row of the registry: "gpt2", "llama"
  int64_t layers = 0, width = 0, heads = 0, kv_heads = 0, head_size = 0, ffn = 0;
  int64_t vocab = 0, positions = 0;  ///< positions: the longest context

  bool rms_norm = false, norm_bias = true;
  double norm_eps = 1e-5;
  double norm_offset = 0;                   ///< norms multiply by norm_offset + w (Gemma: 1)
  bool pre_norm = true, post_norm = false;  ///< y = x + post(f(pre(x))) for attention and feed-forward
  QkNorm qk_norm = QkNorm::kNone;
  Activation activation = Activation::kGeluTanh;
  bool gated_ffn = false;
  bool qkv_bias = false, out_bias = false, ffn_bias = false;
  bool tied_head = false;

  bool learned_positions = false;
  double rope_theta = 0;  ///< 0: no rotary embedding
  RopeScaling rope_scaling;
  int64_t rotary_size = 0;      ///< leading numbers of each head that turn; 0: all
  double local_rope_theta = 0;  ///< of the layers with the window, not scaled; 0: as the others (Gemma 3)
  std::vector<bool> no_rope;    ///< layers whose heads do not turn; empty: none (SmolLM3)

  double attention_scale = 0;    ///< of the scores; 0: 1 / sqrt(head size)
  double attention_softcap = 0;  ///< kernels/attention.h; 0: none
  double logit_softcap = 0;      ///< logits become softcap * tanh(logit / softcap); 0: none
  double embedding_scale = 1;    ///< of the embeddings (Gemma: sqrt(width))
  double residual_scale = 1;     ///< of what each sublayer adds to the residual stream (Granite)
  double logit_divisor = 1;      ///< of the logits (Granite)

  int64_t window = 0;                ///< a row sees the last `window` positions, itself included; 0: all
  std::vector<bool> full_attention;  ///< layers that see everything in spite of the window; empty: none

  bool parallel_block = false;  ///< y = x + FFN(norm(x)) + attention(norm(x)) (GPT-NeoX; MegaScale, section 3.1)
  bool shared_norm = true;      ///< of a parallel block: one norm for both (MegaScale) or one each (GPT-NeoX)

  std::optional<int64_t> bos, eos, pad;
  std::vector<int64_t> more_eos;  ///< what ends a text beside eos (Llama 3's <|eot_id|>, Gemma's <end_of_turn>)

  bool operator==(const ArchSpec&) const = default;

  int64_t query_width() const { return heads * head_size; }
  int64_t kv_width() const { return kv_heads * head_size; }
  int64_t qkv_width() const { return query_width() + 2 * kv_width(); }
  int64_t up_width() const { return gated_ffn ? 2 * ffn : ffn; }
  int64_t rotary() const { return rope_theta <= 0 ? 0 : rotary_size > 0 ? rotary_size : head_size; }
  float score_scale() const {
    return attention_scale > 0 ? float(attention_scale) : 1 / std::sqrt(float(head_size));
  }
  /// Of one layer; 0: it sees everything.
  int64_t window_of(int64_t layer) const {
    return !full_attention.empty() && full_attention[size_t(layer)] ? 0 : window;
  }
  bool turns(int64_t layer) const { return rotary() > 0 && (no_rope.empty() || !no_rope[size_t(layer)]); }
  bool ends_text(int64_t id) const {
    return id == eos || std::find(more_eos.begin(), more_eos.end(), id) != more_eos.end();
  }
  bool has_ffn_norm() const { return pre_norm && !(parallel_block && shared_norm); }
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
/// The mean over layers too, where some have a window and some have none.
double mean_keys(const ArchSpec& spec, int64_t rows, AttentionCount count);

/// Floating-point operations a token of a training step (forward and backward, no recomputation):
///   3 * (2 * weights in products + 4 * L * H * D * mean_keys); the embedding lookup counts nothing, the head does.
double train_flops_per_token(const ArchSpec& spec, int64_t rows, AttentionCount count);

}  // namespace espalier
