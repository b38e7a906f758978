#include "train/muon.h"

#include <algorithm>
#include <cmath>

#include "kernels/kernels.h"

namespace espalier {
namespace {

constexpr int kRounds = 5;
constexpr float kA = 3.4445f, kB = -4.7750f, kC = 2.0315f;

Mat front(Tensor& memory, int64_t rows, int64_t cols) { return mat(memory.as<float>(), rows, cols); }

// y = a x + b y
void blend(Context& ctx, ConstMat x, float a, Mat y, float b) {
  kernels(ctx).axpy(ctx,
                    {.w = y.row<float>(0), .x = x.row<float>(0), .n = x.rows * x.cols, .alpha = a, .shrink = 1 - b});
}

}  // namespace

void MuonScratch::reserve(int64_t rows, int64_t cols) {
  const int64_t small = std::min(rows, cols);
  if (next_.size() < rows * cols || !next_) next_ = Tensor(DType::kF32, {rows * cols});
  if (gram_ && gram_.size() >= small * small) return;
  gram_ = Tensor(DType::kF32, {small * small});
  square_ = Tensor(DType::kF32, {small * small});
}

void orthogonalise(Context& ctx, Mat x, MuonScratch& scratch) {
  ESP_CHECK(x.contiguous() && x.dtype == DType::kF32, "{} rows of stride {}", x.rows, x.stride);
  const Kernels& k = kernels(ctx);
  const bool tall = x.rows > x.cols;  // the smaller of x x^T and x^T x: both give the same x
  const int64_t small = std::min(x.rows, x.cols);
  scratch.reserve(x.rows, x.cols);
  const Mat next = front(scratch.next_, x.rows, x.cols), gram = front(scratch.gram_, small, small),
            square = front(scratch.square_, small, small);
  const double norm = std::sqrt(k.sum_squares(ctx, x.row<float>(0), x.rows * x.cols));
  k.copy(ctx, {.src = x, .dst = x, .scale = float(1 / (norm + 1e-7))});
  for (int round = 0; round < kRounds; ++round) {
    k.gemm(ctx, {.a = x, .a_transposed = tall, .b = x, .b_transposed = !tall, .c = gram});
    k.gemm(ctx, {.a = gram, .b = gram, .c = square});
    blend(ctx, gram, kB, square, kC);
    if (tall)
      k.gemm(ctx, {.a = x, .b = square, .c = next});
    else
      k.gemm(ctx, {.a = square, .b = x, .c = next});
    blend(ctx, next, 1, x, kA);
  }
}

double muon_scale(int64_t rows, int64_t cols) { return 0.2 * std::sqrt(double(std::max(rows, cols))); }

}  // namespace espalier
