#include "kernels/entries.h"
#include "kernels/finite_difference.h"
#include "kernels/op_case.h"

namespace espalier {
namespace {

class Softcap : public OpTest {};

// tanh within 4 ulp, and one rounding each of x / cap and of the product. What an output holds before is its input.
TEST_F(Softcap, ForwardMatchesReference) {
  for (float cap : {0.3f, 2.0f, 30.0f})
    for (int64_t cols : tails())
      check([&](OpRun& op) {
        const Mat x = op.output(DType::kF32, 3, cols, {.relative = 8 * 0x1p-23});
        op.kernels.softcap(op.ctx, {x, cap});
      });
}

// 1 - (y / cap)^2 errs by a few roundings of numbers below 1.2.
TEST_F(Softcap, BackwardMatchesReference) {
  for (DType dtype : {DType::kF32, DType::kBF16})
    for (int64_t cols : tails())
      check([&](OpRun& op) {
        SoftcapBackwardArgs a{.y = op.input(DType::kF32, 3, cols), .dy = op.input(DType::kF32, 3, cols), .cap = 0.9f};
        a.dx = op.output(dtype, 3, cols, {.absolute = 4 * 0x1p-23});
        op.kernels.softcap_backward(op.ctx, a);
      });
}

TEST_F(Softcap, ReferenceBackwardMatchesDifferences) {
  const float cap = 0.8f;
  const std::vector<double> x = random_f32(1, 9, -2, 2), weights = random_f32(2, 9);
  const auto value = [&](const std::vector<double>& at) {
    double sum = 0;
    for (size_t i = 0; i < at.size(); ++i) sum += weights[i] * double(cap) * std::tanh(at[i] / double(cap));
    return sum;
  };
  const std::vector<double> want = numeric_gradient(value, x);
  std::vector<float> y = to_f32(x), dy = to_f32(weights), dx(9);
  Context ctx{one_, silent_log(), Isa::kReference, {}};
  reference_kernels().softcap(ctx, {mat(y.data(), 1, 9), cap});
  reference_kernels().softcap_backward(ctx, {mat(y.data(), 1, 9), mat(dy.data(), 1, 9), mat(dx.data(), 1, 9), cap});
  for (size_t i = 0; i < 9; ++i) EXPECT_NEAR(dx[i], want[i], 1e-6);
}

}  // namespace
}  // namespace espalier
