#include "kernels/muon.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/cache.h"
#include "kernels/kernels.h"

namespace espalier {

void newton_schulz(Context& ctx, Mat g, int steps) {
  ESP_CHECK(g.dtype == DType::kF32, "g is {}", dtype_name(g.dtype));
  constexpr float kA = 3.4445f, kB = -4.7750f, kC = 2.0315f;
  const Kernels& k = kernels(ctx);
  const bool tall = g.rows > g.cols;
  const int64_t side = std::min(g.rows, g.cols), size = g.rows * g.cols;
  float* memory = scratch(ctx).get<float>(Slot::kMuon, 2 * size + 2 * side * side);
  Mat x = mat(memory, g.rows, g.cols), next = mat(memory + size, g.rows, g.cols);
  const Mat gram = mat(memory + 2 * size, side, side), polynomial = mat(memory + 2 * size + side * side, side, side);

  k.copy(ctx, {.src = g, .dst = x});
  const double norm = std::sqrt(k.sum_squares(ctx, x.row<float>(0), size));
  k.copy(ctx, {.src = x, .dst = x, .scale = float(1 / (norm + 1e-7))});
  for (int step = 0; step < steps; ++step) {
    k.gemm(ctx, {.a = x, .a_transposed = tall, .b = x, .b_transposed = !tall, .c = gram});
    k.gemm(ctx, {.a = gram, .b = gram, .c = polynomial});
    k.axpy(ctx,
           {.w = polynomial.row<float>(0), .x = gram.row<float>(0), .n = side * side, .alpha = kB, .shrink = 1 - kC});
    if (tall)
      k.gemm(ctx, {.a = x, .b = polynomial, .c = next});
    else
      k.gemm(ctx, {.a = polynomial, .b = x, .c = next});
    k.axpy(ctx, {.w = next.row<float>(0), .x = x.row<float>(0), .n = size, .alpha = kA});
    std::swap(x, next);
  }
  k.copy(ctx, {.src = x, .dst = g});
}

}  // namespace espalier
