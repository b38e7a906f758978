// LayerNorm and RMSNorm over the residual stream.
#pragma once
#include "ops/param.h"
#include "ops/tape.h"

namespace espalier {

struct NormOptions {
  bool rms = false;
  float eps = 1e-5f;
  float weight_offset = 0;  ///< Gemma multiplies by 1 + w
  bool wide = false;        ///< y is f32, whatever the tape's dtype: a norm that ends a sublayer
};

/// y = norm(x) (kernels/elementwise.h).  x f32 [N, C]; w, b f32 [C], b may be null; y of the tape's dtype.
/// Backward adds to dx where the residual stream has already brought a gradient.
Var norm(Tape& tape, const Var& x, Param& w, Param* b, const NormOptions& options);

}  // namespace espalier
