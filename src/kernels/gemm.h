// Matrix products, the heart of the program: our own, in packed panels. An output's bits depend on its row of A, its
// column of B and the depth alone, so that they are the same for any number of threads and beside any neighbours.
#pragma once
#include "base/context.h"
#include "tensor/view.h"

namespace espalier {

/// C = op(A) . op(B) (+ C) (+ bias)
///   A: [M, K], or [K, M] when a_transposed; B: [K, N], or [N, K] when b_transposed; C: [M, N].
/// Dtypes: A and B both f32, or both bf16; C f32, or bf16 (then without accumulate). Sums are f32.
/// bias: f32 [N], added once to every row; empty for none. C overlaps neither A nor B.
struct GemmArgs {
  ConstMat a;
  bool a_transposed = false;
  ConstMat b;
  bool b_transposed = false;
  Mat c;
  bool accumulate = false;
  ConstMat bias = {};
};

/// Y = X . W^T (+ bias) for few rows, with each row's result independent of the other rows and of their number
/// ("row i of a k-row product", DESIGN "Exact or close"): serving's product.
///   X: f32 [M, K]; W: [N, K] f32, bf16 or f16 (a quantised block format later); Y: f32 [M, N]; bias f32 [N] or empty.
struct RowGemmArgs {
  ConstMat x;
  ConstMat w;
  Mat y;
  ConstMat bias = {};
};

/// True where the processor multiplies bf16 itself (AVX-512 BF16). Elsewhere, and where that is slower than f32, bf16
/// is widened to f32 while it is packed.
bool has_native_bf16();

}  // namespace espalier
