#include "kernels/entries.h"
#include "kernels/finite_difference.h"
#include "kernels/op_case.h"

namespace espalier {
namespace {

class CrossEntropy : public OpTest {};

constexpr int64_t kRows = 5;
enum class Gradient { kNone, kApart, kInPlace, kBF16 };

// Logits in [-10, 10): x - max is rounded at 20 * 2^-24 and the exponential errs by 2 ulp, so probabilities by a
// relative 24 * 2^-24, a sum of them by sum_error of a block more. The target's entry p - 1 cancels: where p is near 1
// (few columns), a sum near 1 was rounded some eight times.
Tolerance probability_bound(int64_t cols) {
  return {.absolute = 8 * 0x1p-24, .relative = 24 * 0x1p-24 + sum_error(std::min<int64_t>(cols, 2048))};
}

void run(OpRun& op, int64_t cols, Gradient gradient, bool weighted) {
  const Tolerance bound = probability_bound(cols);
  std::vector<int32_t> targets;
  for (int64_t i = 0; i < kRows; ++i) targets.push_back(i == 3 ? -1 : int32_t((cols - 1) * i / (kRows - 1)));
  CrossEntropyArgs a{.targets = targets.data(), .scale = 0.25f};
  if (gradient == Gradient::kInPlace) {
    a.dlogits = op.output(DType::kF32, kRows, cols, bound, -10, 10);
    a.logits = a.dlogits;
  } else {
    a.logits = op.input(DType::kF32, kRows, cols, -10, 10);
    if (gradient == Gradient::kApart) a.dlogits = op.output(DType::kF32, kRows, cols, bound);
    if (gradient == Gradient::kBF16) a.dlogits = op.output(DType::kBF16, kRows, cols, bound);
  }
  if (weighted) a.weight = op.input(DType::kF32, 1, kRows).row<float>(0);
  a.loss = op.output(DType::kF32, 1, kRows, {.absolute = 2 * bound.relative, .relative = 0x1p-23}).row<float>(0);
  op.kernels.cross_entropy(op.ctx, a);
}

TEST_F(CrossEntropy, MatchesReference) {
  std::vector<int64_t> widths = tails();
  widths.insert(widths.end(), {2047, 2048, 2049, 5000});
  for (int64_t cols : widths)
    for (Gradient gradient : {Gradient::kNone, Gradient::kApart, Gradient::kInPlace, Gradient::kBF16})
      check([&](OpRun& op) { run(op, cols, gradient, cols % 2 == 0); });
}

TEST_F(CrossEntropy, MaskedAndExtremeLogits) {
  // -inf is a token that cannot be; huge logits must not overflow; NaN must come through.
  constexpr float kInf = INFINITY;
  const std::vector<std::vector<float>> rows{{-kInf, 1, -kInf, 1}, {3e38f, 0, -3e38f, 3e38f}, {0, NAN, 0, 0}};
  for (Isa isa : {Isa::kReference, Isa::kAvx2, Isa::kAvx3}) {
    if (!isa_supported(isa)) continue;
    Context ctx{one_, silent_log(), isa, {}};
    for (size_t i = 0; i < rows.size(); ++i) {
      const int32_t target = 3;
      float loss = 0;
      std::vector<float> dx(4);
      const ConstMat x = mat(rows[i].data(), 1, 4);
      kernels(ctx).cross_entropy(ctx, {x, &target, nullptr, 1, &loss, mat(dx.data(), 1, 4)});
      if (i == 2) {
        EXPECT_TRUE(std::isnan(loss));
        continue;
      }
      EXPECT_NEAR(loss, std::log(2.0), 1e-6) << isa_name(isa) << " row " << i;
      EXPECT_EQ(dx[i == 0 ? 0 : 1], 0.0f);
      EXPECT_NEAR(dx[i == 0 ? 1 : 0], 0.5, 1e-6);
      EXPECT_NEAR(dx[3], -0.5, 1e-6);
    }
  }
}

TEST_F(CrossEntropy, ReferenceGradientMatchesFiniteDifferences) {
  constexpr size_t kCols = 9;
  Context ctx{one_, silent_log(), Isa::kReference, {}};
  const std::vector<double> x = random_f32(1, kCols, -3, 3);
  const int32_t target = 4;
  const auto loss = [&](const std::vector<double>& v) {
    double sum = 0;
    for (double vi : v) sum += std::exp(vi);
    return std::log(sum) - v[size_t(target)];
  };
  const std::vector<double> expected = numeric_gradient(loss, x);
  const std::vector<float> x32 = to_f32(x);
  std::vector<float> dx(kCols);
  float got = 0;
  const ConstMat in = mat(x32.data(), 1, kCols);
  reference::cross_entropy(ctx, {in, &target, nullptr, 0.5f, &got, mat(dx.data(), 1, kCols)});
  EXPECT_NEAR(got, loss(x), 1e-6);
  for (size_t c = 0; c < kCols; ++c) EXPECT_NEAR(dx[c], 0.5 * expected[c], 1e-7) << c;
}

}  // namespace
}  // namespace espalier
