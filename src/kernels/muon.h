// Muon's orthogonalisation (Jordan 2024, "Muon: an optimizer for hidden layers in neural networks").
#pragma once
#include "base/context.h"
#include "tensor/view.h"

namespace espalier {

/// Replaces g, f32 [m, n], by a matrix with its singular vectors and singular values near 1 (0.68 ... 1.2 after five
/// steps, unless they were below a thousandth of g's Frobenius norm). Starting from X = g / |g|, each step is
///   A = X X^T;  X = a X + (b A + c A A) X,  a, b, c = 3.4445, -4.7750, 2.0315
/// with X^T X and the factors on the right where m > n, so that A is the smaller square. All zeros stay zeros.
/// Scratch: 2 m n + 2 min(m, n)^2 floats, kept between calls.
void newton_schulz(Context& ctx, Mat g, int steps = 5);

}  // namespace espalier
