// The loops between the matrix products. "T" below is f32 or bf16, the compute dtype of activations; the residual
// stream, statistics, parameters and their gradients are f32. Sums over rows are cut into pieces that depend on the
// shape alone, so that results are the same bits for any number of threads.
#pragma once
#include "base/context.h"
#include "base/rng.h"
#include "tensor/view.h"

namespace espalier {

/// out[i] = scale * tokens[ids[i]] + positions[position_ids[i]] (positions may be empty)
///   tokens f32, bf16 or f16 [V, C]; positions f32 [P, C]; out f32 [N, C]
struct EmbedArgs {
  ConstMat tokens, positions;
  const int32_t* ids;
  const int32_t* position_ids;
  float scale = 1;
  Mat out;
};
/// dtokens[ids[i]] += scale * dout[i]; dpositions[position_ids[i]] += dout[i], in row order.
struct EmbedBackwardArgs {
  ConstMat dout;
  const int32_t* ids;
  const int32_t* position_ids;
  float scale = 1;
  Mat dtokens, dpositions;
};

/// LayerNorm (Ba et al. 2016): y = (x - mean) * rstd * w + b, rstd = 1 / sqrt(var + eps)
/// RMSNorm (Zhang, Sennrich 2019), when rms: y = x * rstd * (weight_offset + w), rstd = 1 / sqrt(mean(x^2) + eps)
///   x [N, C] f32 (or T); w, b f32 [C] (b may be empty); y [N, C] f32 or bf16, which may be the memory of x; stats
///   f32 [N, 2]: mean and rstd (empty where no backward pass follows)
/// With heads > 1 each row is that many pieces, each normed by itself: x, y [N, heads * C], stats [N, heads * 2].
struct NormArgs {
  ConstMat x, w, b;
  float eps = 1e-5f, weight_offset = 0;
  bool rms = false;
  Mat y, stats;
  int64_t heads = 1;
};
/// dx (+)= ...; dw += ...; db += ... (empty for none). accumulate adds to dx, otherwise it is assigned.
///   dy [N, C] f32 or bf16; dx f32 or bf16, which may be the memory of dy
struct NormBackwardArgs {
  ConstMat dy, x, w, stats;
  float weight_offset = 0;
  bool rms = false, accumulate = false;
  Mat dx, dw, db;
  int64_t heads = 1;
};

/// Rotary embedding (Su et al. 2021), in place on `heads` heads of size D at the start of each row of x
/// [N, >= heads*D]. The first `rotary` numbers of each head turn in pairs (j, j + rotary/2) (half-split, as Hugging
/// Face and GPT-NeoX) or (2j, 2j+1) when interleaved. table f32 [positions, rotary]: cos (rotary/2), then sin
/// (rotary/2). inverse turns back: the backward pass.
struct RopeArgs {
  Mat x;
  int64_t heads = 0, head_size = 0, rotary = 0;
  ConstMat table;
  const int32_t* position_ids = nullptr;
  bool interleaved = false, inverse = false;
};

enum class Activation { kGelu, kGeluTanh, kSilu, kRelu };
/// y = act(x) for x [N, F]; or gated: x [N, 2F] = (gate | up), y = act(gate) * up [N, F]. Both of dtype T.
struct ActivationArgs {
  Activation kind;
  bool gated = false;
  ConstMat x;
  Mat y;
};
/// dx assigned; dx may be the memory of x.
struct ActivationBackwardArgs {
  Activation kind;
  bool gated = false;
  ConstMat x, dy;
  Mat dx;
};

/// x = cap * tanh(x / cap), in place; f32 [N, C].
struct SoftcapArgs {
  Mat x;
  float cap;
};
/// dx = dy * (1 - (y / cap)^2) for y = cap * tanh(x / cap); y f32 [N, C]; dy and dx f32 or bf16, maybe the same memory.
struct SoftcapBackwardArgs {
  ConstMat y, dy;
  Mat dx;
  float cap;
};

/// loss[i] = logsumexp(logits[i]) - logits[i][target[i]] (0 where target < 0);
/// dlogits[i] = (softmax(logits[i]) - onehot) * weight[i] (0 where target < 0); dlogits may be the memory of logits
/// (same dtype then) or a bf16 matrix, or empty for none. logits f32 [N, V]; weight f32 [N] or null for `scale`.
struct CrossEntropyArgs {
  ConstMat logits;
  const int32_t* targets;
  const float* weight = nullptr;
  float scale = 1;  ///< the weight of every row when weight is null
  float* loss;
  Mat dlogits;
};

/// y = a + b; y may be a or b. f32 or bf16 each.
struct AddArgs {
  ConstMat a, b;
  Mat y;
};
/// dst = scale * src, converting between f32, bf16 and f16; accumulate adds (dst f32).
struct CopyArgs {
  ConstMat src;
  Mat dst;
  float scale = 1;
  bool accumulate = false;
};
/// sum[c] += sum over rows of x[r][c]; x f32 or bf16 [N, C]; sum f32 [C]. The gradient of a bias.
struct ColumnSumArgs {
  ConstMat x;
  Mat sum;
};
/// y = keep ? x / (1 - p) : 0, with keep drawn from rng at index row * cols + col. Forward and backward are the same
/// call.
struct DropoutArgs {
  ConstMat x;
  Mat y;
  float p = 0;
  Rng rng;
};

}  // namespace espalier
