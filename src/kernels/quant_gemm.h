// Serving's product with quantised weights.
#pragma once
#include <span>

#include "base/context.h"
#include "kernels/quant_panels.h"
#include "tensor/view.h"

namespace espalier {

/// Y = X . W^T (+ bias).  X: f32 [M, K], K a multiple of 32; W: the rows of all runs, one after another, [N, K];
/// Y: f32 [M, N]; bias f32 [N] or empty.
///
/// X is rounded to 8 bits, 32 numbers sharing a scale:
///   xs = max |x| / 127,  xq = round to even(x * (127 / max |x|))
/// and each output is one chain of f32 sums over the 32-column blocks in order,
///   y = fma(xs, float(sum of xq (q - zero)) * scale, y)
/// where a block has two scales the second joins the first by fma(float(sum), scale, ...), and then
///   y = fma(-minimum, xs * float(sum of xq), y)   (+minimum where it is f16)
/// for types with minima. Sums of integers are exact, so that this order says every bit: a row's result is the same
/// whatever the other rows are, on every instruction set. A row of X with NaN or infinity gives NaN.
struct QuantGemmArgs {
  ConstMat x;
  std::span<const PanelRun> w;
  Mat y;
  ConstMat bias = {};
};

}  // namespace espalier
