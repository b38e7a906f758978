#include "kernels/op_case.h"

namespace espalier {
namespace {

class Elementwise : public OpTest {};

constexpr DType kPair[] = {DType::kF32, DType::kBF16};
constexpr DType kAll[] = {DType::kF32, DType::kBF16, DType::kF16};

TEST_F(Elementwise, AddIsExact) {
  for (DType da : kPair)
    for (DType db : kPair)
      for (DType dy : kPair)
        for (int64_t cols : {1, 7, 8, 9, 15, 16, 17, 31, 33, 100})
          check([&](OpRun& op) {
            const ConstMat a = op.input(da, 3, cols), b = op.input(db, 3, cols);
            op.kernels.add(op.ctx, {a, b, op.output(dy, 3, cols, {})});
          });
}

TEST_F(Elementwise, AddInPlace) {
  check([&](OpRun& op) {
    const Mat y = op.output(DType::kF32, 3, 35, {});
    op.kernels.add(op.ctx, {y, op.input(DType::kBF16, 3, 35), y});
  });
}

TEST_F(Elementwise, CopyConvertsExactly) {
  for (DType src : kAll)
    for (DType dst : kAll)
      for (int64_t cols : {1, 7, 8, 9, 15, 16, 17, 31, 33, 100})
        check([&](OpRun& op) {
          const ConstMat x = op.input(src, 3, cols);
          op.kernels.copy(op.ctx, {x, op.output(dst, 3, cols, {}), 0.3f, dst == DType::kF32 && cols % 2 == 0});
        });
}

TEST_F(Elementwise, CopyOfManyPieces) {
  check([&](OpRun& op) {
    const ConstMat x = op.input(DType::kF32, 33, 3001);
    op.kernels.copy(op.ctx, {x, op.output(DType::kBF16, 33, 3001, {})});
  });
}

TEST_F(Elementwise, DropoutDrawsTheSameNumbersEverywhere) {
  for (int64_t cols : tails())
    check([&](OpRun& op) {
      DropoutArgs a{.p = 0.4f, .rng = Rng(5, Purpose::kDropout, 77)};
      a.x = op.input(cols % 2 ? DType::kF32 : DType::kBF16, 3, cols);
      a.y = op.output(DType::kF32, 3, cols, {});
      op.kernels.dropout(op.ctx, a);
    });
}

TEST_F(Elementwise, DropoutKeepsTheExpectedShareAndTheMean) {
  constexpr int64_t kCount = 200000;
  const std::vector<float> ones(kCount, 1.0f);
  std::vector<float> y(kCount);
  for (Isa isa : {Isa::kReference, Isa::kAvx2, Isa::kAvx3}) {
    if (!isa_supported(isa)) continue;
    Context ctx{three_, silent_log(), isa, {}};
    const Rng rng(5, Purpose::kDropout, 1);
    kernels(ctx).dropout(ctx, {mat(ones.data(), 1, kCount), mat(y.data(), 1, kCount), 0.25f, rng});
    double sum = 0;
    for (int64_t i = 0; i < kCount; ++i) {
      sum += y[size_t(i)];
      ASSERT_EQ(y[size_t(i)], rng.uniform(uint64_t(i)) >= 0.25f ? 1 / 0.75f : 0.0f);
    }
    // Five standard deviations of the mean of Bernoulli(0.75) / 0.75.
    EXPECT_NEAR(sum / kCount, 1, 5 * std::sqrt(0.25 / 0.75 / kCount));
  }
}

}  // namespace
}  // namespace espalier
