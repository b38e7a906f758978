// RMSNorm of queries and keys before they turn (Dehghani et al. 2023): attention's scores stay bounded.
#pragma once
#include "ops/param.h"
#include "ops/tape.h"

namespace espalier {

struct QkNormOptions {
  int64_t heads = 0, kv_heads = 0, head_size = 0;
  bool whole = false;       ///< all heads of a row together (OLMo 2), otherwise each by itself (Qwen3, Gemma 3)
  float eps = 1e-6f;
  float weight_offset = 0;  ///< Gemma multiplies by 1 + w
};

/// Norms the q and k columns of qkv [N, (H + 2K) * D] in place. w_q, w_k f32 [D] each; whole: [H*D] and [K*D].
/// Backward turns the gradient of the normed into that of the unnormed, in place too. In place is safe because the
/// product that made qkv does not need its result to go backward; a recording tape keeps a copy of what is normed.
void qk_norm(Tape& tape, const Var& qkv, Param& w_q, Param& w_k, const QkNormOptions& options);

}  // namespace espalier
