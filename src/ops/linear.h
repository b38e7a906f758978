// Linear layers: y = x W^T + b, alone or added to the residual stream.
#pragma once
#include "ops/param.h"
#include "ops/tape.h"

namespace espalier {

/// y = x W^T (+ b).  x [N, in] of the tape's dtype; W [out, in]; b [out] or null; y [N, out] of `out` (default: the
/// tape's dtype). Backward: dx = dy W, dW += dy^T x, db += column sums of dy.
Var linear(Tape& tape, const Var& x, Param& w, Param* b);
Var linear(Tape& tape, const Var& x, Param& w, Param* b, DType out);

/// y = residual + x W^T (+ b), residual and y f32 [N, out]. Backward as linear's; the residual's gradient is dy itself.
Var linear_residual(Tape& tape, const Var& x, Param& w, Param* b, const Var& residual);

}  // namespace espalier
