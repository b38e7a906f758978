// Muon's direction: the nearest (semi-)orthogonal matrix to a momentum, by a Newton-Schulz iteration.
#pragma once
#include "base/context.h"
#include "tensor/tensor.h"

namespace espalier {

/// Memory for orthogonalise() of matrices up to a size.
class MuonScratch {
 public:
  /// Makes room for [rows, cols].
  void reserve(int64_t rows, int64_t cols);
  int64_t bytes() const { return next_.bytes() + gram_.bytes() + square_.bytes(); }

 private:
  friend void orthogonalise(Context& ctx, Mat x, MuonScratch& scratch);
  Tensor next_, gram_, square_;
};

/// x f32 [m, n] becomes about U V^T of its singular value decomposition: singular values end between 0.7 and 1.2.
/// Five rounds of x = a x + (b A + c A^2) x, A = x x^T, after scaling x to norm 1, with (a, b, c) = (3.4445, -4.7750,
/// 2.0315) (Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks").
void orthogonalise(Context& ctx, Mat x, MuonScratch& scratch);

/// What an orthogonal update [rows, cols] is multiplied by so that its root mean square is AdamW's usual 0.2, and rate
/// and decay carry over: 0.2 sqrt(max(rows, cols)) (Liu et al. 2025, "Muon is scalable for LLM training", eq. 4).
double muon_scale(int64_t rows, int64_t cols);

}  // namespace espalier
