#include "kernels/entries.h"
#include "kernels/finite_difference.h"
#include "kernels/op_case.h"

namespace espalier {
namespace {

class Norm : public OpTest {};

// With |x| < 1 and eps = 0.1: rstd < 3.2, |xhat| < 6.4. An error d of a mean of cols terms moves xhat by 3.2 d, an
// error of the mean square moves it by 0.5 * 3.2^2 * 6.4 d at most.
double forward_bound(int64_t cols) { return 40 * sum_error(cols); }

TEST_F(Norm, ForwardMatchesReference) {
  for (bool rms : {false, true}) {
    for (DType in : {DType::kF32, DType::kBF16}) {
      for (int64_t cols : tails()) {
        check([&](OpRun& op) {
          NormArgs a{.x = op.input(in, 3, cols), .w = op.input(DType::kF32, 1, cols), .eps = 0.1f, .rms = rms};
          if (!rms) a.b = op.input(DType::kF32, 1, cols);
          if (rms) a.weight_offset = 1;
          const DType out = cols % 2 ? DType::kF32 : DType::kBF16;
          a.y = op.output(out, 3, cols, {.absolute = 2 * forward_bound(cols)});
          a.stats = op.output(DType::kF32, 3, 2, {.absolute = forward_bound(cols)});
          op.kernels.norm_forward(op.ctx, a);
        });
      }
    }
  }
}

TEST_F(Norm, ForwardWithoutStatsForInference) {
  check([&](OpRun& op) {
    NormArgs a{.x = op.input(DType::kF32, 5, 48), .w = op.input(DType::kF32, 1, 48), .eps = 0.1f, .rms = true};
    a.y = op.output(DType::kF32, 5, 48, {.absolute = forward_bound(48)});
    op.kernels.norm_forward(op.ctx, a);
  });
}

// Statistics here are free inputs in [0.2, 1.5): |xhat| < 3.75, |g| < 2, |mean(g xhat)| < 7.5, so |dx| < 48; 37 rows
// make three pieces.
TEST_F(Norm, BackwardMatchesReference) {
  constexpr int64_t kRows = 37;
  for (bool rms : {false, true}) {
    for (DType grad : {DType::kF32, DType::kBF16}) {
      for (int64_t cols : tails()) {
        check([&](OpRun& op) {
          NormBackwardArgs a{.dy = op.input(grad, kRows, cols),
                             .x = op.input(cols % 3 ? DType::kF32 : DType::kBF16, kRows, cols),
                             .w = op.input(DType::kF32, 1, cols),
                             .stats = op.input(DType::kF32, kRows, 2, 0.2f, 1.5f),
                             .weight_offset = 1,
                             .rms = rms,
                             .accumulate = cols % 2 == 0};
          a.dx = op.output(DType::kF32, kRows, cols, {.absolute = 48 * sum_error(cols)});
          const double terms = 3.75 * double(kRows);
          a.dw = op.output(DType::kF32, 1, cols, {.absolute = terms * double(kRows) * 0x1p-24});
          if (!rms) a.db = op.output(DType::kF32, 1, cols, {.absolute = terms * double(kRows) * 0x1p-24});
          op.kernels.norm_backward(op.ctx, a);
        });
      }
    }
  }
}

// Heads are so many norms of their own: forward, and backward in bf16 as queries and keys want it. For the bounds see
// above; a head's share of dw is one row more.
TEST_F(Norm, HeadsMatchReference) {
  constexpr int64_t kRows = 19, kHeads = 3;
  for (DType dtype : {DType::kF32, DType::kBF16})
    for (int64_t cols : tails()) {
      check([&](OpRun& op) {
        NormArgs a{.x = op.input(dtype, kRows, kHeads * cols), .w = op.input(DType::kF32, 1, cols), .eps = 0.1f,
                   .rms = true, .heads = kHeads};
        a.y = op.output(dtype, kRows, kHeads * cols, {.absolute = 2 * forward_bound(cols)});
        a.stats = op.output(DType::kF32, kRows, 2 * kHeads, {.absolute = forward_bound(cols)});
        op.kernels.norm_forward(op.ctx, a);
      });
      check([&](OpRun& op) {
        NormBackwardArgs a{.dy = op.input(dtype, kRows, kHeads * cols), .x = op.input(dtype, kRows, kHeads * cols),
                           .w = op.input(DType::kF32, 1, cols),
                           .stats = op.input(DType::kF32, kRows, 2 * kHeads, 0.2f, 1.5f), .weight_offset = 1,
                           .rms = true, .heads = kHeads};
        a.dx = op.output(dtype, kRows, kHeads * cols, {.absolute = 48 * sum_error(cols)});
        const double terms = double(kRows * kHeads);
        a.dw = op.output(DType::kF32, 1, cols, {.absolute = 3.75 * terms * terms * 0x1p-24});
        op.kernels.norm_backward(op.ctx, a);
      });
    }
}

// In the same memory: a tape's queries and keys are normed where they lie, and so are their gradients.
TEST_F(Norm, InPlaceIsTheSameBits) {
  constexpr int64_t kRows = 5, kHeads = 2, kSize = 21, kAll = kRows * kHeads * kSize;
  const std::vector<float> x = to_f32(random_f32(3, kAll)), dy = to_f32(random_f32(4, kAll)),
                           w = to_f32(random_f32(5, kSize));
  for (Isa isa : {Isa::kAvx2, Isa::kAvx3}) {
    if (!isa_supported(isa)) continue;
    Context ctx{one_, silent_log(), isa, {}};
    std::vector<float> y(kAll), y_here = x, dx(kAll), dx_here = dy, stats(2 * kRows * kHeads);
    const auto rows = [](auto& v) { return mat(v.data(), kRows, kHeads * kSize); };
    NormArgs a{.x = rows(x), .w = mat(w.data(), 1, kSize), .rms = true, .y = rows(y),
               .stats = mat(stats.data(), kRows, 2 * kHeads), .heads = kHeads};
    kernels(ctx).norm_forward(ctx, a);
    a.x = a.y = rows(y_here);
    kernels(ctx).norm_forward(ctx, a);
    EXPECT_EQ(y, y_here);
    NormBackwardArgs b{.dy = rows(dy), .x = rows(x), .w = a.w, .stats = a.stats, .rms = true, .dx = rows(dx),
                       .heads = kHeads};
    kernels(ctx).norm_backward(ctx, b);
    b.dy = b.dx = rows(dx_here);
    kernels(ctx).norm_backward(ctx, b);
    EXPECT_EQ(dx, dx_here);
  }
}

constexpr size_t kRows = 3, kCols = 11;

/// sum(dy * norm(x)), written down once more in f64. all = (x, w, b).
double weighted_norm(const std::vector<double>& all, const std::vector<double>& dy, bool rms, double offset) {
  const double* w = &all[kRows * kCols];
  const double* b = w + kCols;
  double sum = 0;
  for (size_t i = 0; i < kRows; ++i) {
    const double* x = &all[i * kCols];
    double mean = 0, square = 0;
    for (size_t c = 0; c < kCols; ++c) mean += rms ? 0 : x[c] / kCols;
    for (size_t c = 0; c < kCols; ++c) square += (x[c] - mean) * (x[c] - mean) / kCols;
    for (size_t c = 0; c < kCols; ++c) {
      const double y = (x[c] - mean) / std::sqrt(square + 0.01) * (offset + w[c]) + (rms ? 0 : b[c]);
      sum += dy[i * kCols + c] * y;
    }
  }
  return sum;
}

TEST_F(Norm, ReferenceBackwardMatchesFiniteDifferences) {
  for (bool rms : {false, true}) {
    const double offset = rms ? 1 : 0;
    const std::vector<double> all = random_f32(1, kRows * kCols + 2 * kCols), dy = random_f32(2, kRows * kCols);
    const auto expected =
        numeric_gradient([&](const std::vector<double>& v) { return weighted_norm(v, dy, rms, offset); }, all);
    Context ctx{one_, silent_log(), Isa::kReference, {}};
    const std::vector<float> in = to_f32(all), dy32 = to_f32(dy);
    std::vector<float> y(kRows * kCols), stats(kRows * 2), got(all.size());
    const auto rows = int64_t(kRows), cols = int64_t(kCols);
    const ConstMat x = mat(in.data(), rows, cols), w = mat(&in[kRows * kCols], 1, cols);
    const ConstMat b = rms ? ConstMat{} : mat(&in[kRows * kCols + kCols], 1, cols);
    reference::norm_forward(ctx, {x, w, b, 0.01f, float(offset), rms, mat(y.data(), rows, cols),
                                  mat(stats.data(), rows, 2)});
    NormBackwardArgs back{mat(dy32.data(), rows, cols), x, w, mat(stats.data(), rows, 2), float(offset), rms};
    back.dx = mat(got.data(), rows, cols);
    back.dw = mat(&got[kRows * kCols], 1, cols);
    if (!rms) back.db = mat(&got[kRows * kCols + kCols], 1, cols);
    reference::norm_backward(ctx, back);
    double forward = 0;
    for (size_t i = 0; i < y.size(); ++i) forward += dy[i] * double(y[i]);
    EXPECT_NEAR(forward, weighted_norm(all, dy, rms, offset), 1e-5);
    // The statistics were rounded to f32 (2^-24 of numbers up to 10), the eps too.
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 5e-6) << i << " rms " << rms;
  }
}

}  // namespace
}  // namespace espalier
