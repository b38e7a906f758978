// Attention, forward and backward, tiled with an online softmax (Dao 2023, FlashAttention-2): scores are never stored.
#pragma once
#include <algorithm>

#include "base/context.h"
#include "tensor/view.h"

namespace espalier {

/// Shapes: N = sequences * T rows, sequence by sequence. H query heads, K key/value heads (H % K == 0), head size D.
///   q [N, H*D], k, v [N, K*D]: views into the fused projection (any stride), f32 or bf16
///   out [N, H*D], same dtype; lse f32 [H, N]: log-sum-exp of the scaled scores, kept for the backward pass.
/// first_key[i], i in [0, N): row i attends to rows first(i) ... i of its own sequence, counted within the sequence
/// (0 <= first_key[i] <= i % T). It says causality and document borders; `window` says that a row sees no more than so
/// many rows, itself included.
/// softcap > 0: scores become softcap * tanh(scale * q.k / softcap) (Gemma 2).
struct AttentionShape {
  int64_t sequences = 0, rows = 0;  ///< rows is T, the length of each sequence
  int64_t heads = 0, kv_heads = 0, head_size = 0;
  float scale = 0;  ///< of the scores, usually 1 / sqrt(D)
  const int32_t* first_key = nullptr;
  int64_t window = 0;  ///< 0: none
  float softcap = 0;   ///< 0: none

  /// The first key that row i, in [0, N), sees.
  int64_t first(int64_t i) const {
    return window > 0 ? std::max<int64_t>(first_key[i], i % rows - window + 1) : first_key[i];
  }
};

struct AttentionForwardArgs {
  AttentionShape shape;
  ConstMat q, k, v;
  Mat out;
  Mat lse;
};

/// dq, dk, dv are assigned; they may be strided views into one buffer. Deterministic for any number of threads.
///   dP = dO V^T;  dS = P * (dP - rowsum(dO * O));  dQ = scale dS K;  dK = scale dS^T Q;  dV = P^T dO
/// With a soft cap dS is multiplied by its slope, 1 - tanh^2.
struct AttentionBackwardArgs {
  AttentionShape shape;
  ConstMat q, k, v, out, lse, dout;
  Mat dq, dk, dv;
};

/// Where each row of a tree of tokens finds its keys. Positions below `shared` lie in the cache in order and are seen
/// by all; row i sees `lengths[i]` positions more, itself the last, of which number d lies in cache row
/// rows[i * stride + d].
struct KeyPaths {
  int64_t shared = 0, stride = 0;
  const int32_t *rows = nullptr, *lengths = nullptr;

  int64_t position(int64_t row) const { return shared + lengths[row] - 1; }
  int64_t cache_row(int64_t row, int64_t position) const {
    return position < shared ? position : rows[row * stride + position - shared];
  }
};

/// Attention of new rows over a cache, for generation. The n new rows are the last of `keys` positions; row i (of n)
/// sits at position keys - n + i and sees positions first_key(i) = max(0, position - window + 1) ... position.
///   q f32 [n, H*D]; k, v f32 or bf16 [>= keys, K*D], or u8 as kernels/q8_rows.h has them (D % 32 == 0);
///   out f32 [n, H*D]. window 0: unlimited; softcap as above.
/// With `paths` a row's position and keys are what they say instead; `keys` counts the cache's rows.
/// Each row's bits depend on its own query and the keys it sees alone: not on n, and not on where its path lies.
struct CachedAttentionArgs {
  ConstMat q, k, v;
  Mat out;
  int64_t keys = 0, heads = 0, kv_heads = 0, head_size = 0, window = 0;
  float scale = 0, softcap = 0;
  const KeyPaths* paths = nullptr;

  int64_t position(int64_t row) const { return paths ? paths->position(row) : keys - q.rows + row; }
  int64_t first(int64_t row) const {
    return window > 0 ? std::max<int64_t>(0, position(row) - window + 1) : 0;
  }
};

}  // namespace espalier
