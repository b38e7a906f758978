#include "kernels/entries.h"
#include "kernels/finite_difference.h"
#include "kernels/op_case.h"

namespace espalier {
namespace {

class ActivationOp : public OpTest {};

constexpr Activation kKinds[] = {Activation::kGelu, Activation::kGeluTanh, Activation::kSilu, Activation::kRelu};

// |x| < 8. The functions themselves err by 4 ulp; GELU's 1 + erf(x) by 4 * 2^-24 absolutely, times |x| = 8 and, in
// the slope of the tanh form, times u' < 15 where sigmoid's slope is below 0.01. Its argument, up to 50, is rounded
// three times, which the exponential turns into a relative 50 * 3 * 2^-24.
constexpr Tolerance kBound{.absolute = 8 * 4 * 0x1p-24, .relative = 150 * 0x1p-24};

TEST_F(ActivationOp, ForwardMatchesReference) {
  for (Activation kind : kKinds) {
    for (bool gated : {false, true}) {
      for (DType dtype : {DType::kF32, DType::kBF16}) {
        for (int64_t cols : tails()) {
          check([&](OpRun& op) {
            const ConstMat x = op.input(dtype, 3, gated ? 2 * cols : cols, -8, 8);
            const Tolerance bound = gated ? Tolerance{8 * kBound.absolute, kBound.relative} : kBound;
            op.kernels.activation_forward(op.ctx, {kind, gated, x, op.output(dtype, 3, cols, bound)});
          });
        }
      }
    }
  }
}

TEST_F(ActivationOp, BackwardMatchesReferenceAlsoInPlace) {
  for (Activation kind : kKinds) {
    for (bool gated : {false, true}) {
      for (DType dtype : {DType::kF32, DType::kBF16}) {
        for (int64_t cols : {1, 7, 8, 15, 16, 17, 31, 32, 33, 100}) {
          for (bool in_place : {false, true}) {
            check([&](OpRun& op) {
              const ConstMat dy = op.input(dtype, 3, cols);
              const int64_t width = gated ? 2 * cols : cols;
              const Tolerance bound{8 * kBound.absolute, kBound.relative};  // times up, or the value's size
              const Mat dx = op.output(dtype, 3, width, bound, -8, 8);
              const ConstMat x = in_place ? ConstMat(dx) : op.input(dtype, 3, width, -8, 8);
              op.kernels.activation_backward(op.ctx, {kind, gated, x, dy, dx});
            });
          }
        }
      }
    }
  }
}

TEST_F(ActivationOp, ManyPiecesOfALongMatrix) {
  check([&](OpRun& op) {
    const ConstMat x = op.input(DType::kF32, 37, 2001, -8, 8);
    op.kernels.activation_forward(op.ctx, {Activation::kSilu, false, x, op.output(DType::kF32, 37, 2001, kBound)});
  });
}

TEST_F(ActivationOp, FarOutIsIdentityOrZeroAndNaNStays) {
  for (Isa isa : {Isa::kReference, Isa::kAvx2, Isa::kAvx3}) {
    if (!isa_supported(isa)) continue;
    Context ctx{one_, silent_log(), isa, {}};
    for (Activation kind : kKinds) {
      const std::vector<float> x{1e4f, -1e4f, 3e18f, -3e18f, NAN, 0};
      std::vector<float> y(6);
      kernels(ctx).activation_forward(ctx, {kind, false, mat(x.data(), 1, 6), mat(y.data(), 1, 6)});
      EXPECT_EQ(y[0], 1e4f);
      EXPECT_EQ(y[1], 0.0f);
      EXPECT_EQ(y[2], 3e18f);
      EXPECT_EQ(y[3], 0.0f);
      EXPECT_TRUE(std::isnan(y[4]) || kind == Activation::kRelu);
      EXPECT_EQ(y[5], 0.0f);
    }
  }
}

double act(Activation kind, double x) {
  switch (kind) {
    case Activation::kGelu:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::kGeluTanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
    case Activation::kRelu:
      return std::max(x, 0.0);
  }
  return 0;
}

TEST_F(ActivationOp, ReferenceBackwardMatchesFiniteDifferences) {
  constexpr size_t kCols = 40;
  Context ctx{one_, silent_log(), Isa::kReference, {}};
  for (Activation kind : kKinds) {
    const std::vector<double> x = random_f32(1, 2 * kCols, -4, 4), dy = random_f32(2, kCols);
    const auto loss = [&](const std::vector<double>& v) {
      double sum = 0;
      for (size_t c = 0; c < kCols; ++c) sum += dy[c] * act(kind, v[c]) * v[kCols + c];
      return sum;
    };
    const std::vector<double> expected = numeric_gradient(loss, x);
    const std::vector<float> x32 = to_f32(x), dy32 = to_f32(dy);
    std::vector<float> dx(2 * kCols), y(kCols);
    const ConstMat in = mat(x32.data(), 1, 2 * kCols);
    reference::activation_forward(ctx, {kind, true, in, mat(y.data(), 1, kCols)});
    reference::activation_backward(ctx, {kind, true, in, mat(dy32.data(), 1, kCols), mat(dx.data(), 1, 2 * kCols)});
    for (size_t c = 0; c < kCols; ++c) EXPECT_NEAR(y[c], act(kind, x[c]) * x[kCols + c], 2e-6);
    for (size_t i = 0; i < dx.size(); ++i) EXPECT_NEAR(dx[i], expected[i], 2e-6) << i;  // f32 of numbers below 16
  }
}

}  // namespace
}  // namespace espalier
