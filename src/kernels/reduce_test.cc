#include "kernels/op_case.h"

namespace espalier {
namespace {

class Reduce : public OpTest {};

TEST_F(Reduce, ColumnSumMatchesReference) {
  std::vector<std::pair<int64_t, int64_t>> shapes{{50, 1100}};  // several blocks of columns
  for (int64_t rows : {1, 3, 4, 5, 50, 1100})
    for (int64_t cols : {1, 8, 15, 16, 17, 33}) shapes.push_back({rows, cols});
  for (DType dtype : {DType::kF32, DType::kBF16})
    for (const auto& [rows, cols] : shapes)
      check([&, rows = rows, cols = cols](OpRun& op) {
        // Every one of `rows` additions of numbers below 1 rounds a partial sum below `rows`.
        const double bound = double(rows + 4) * double(rows) * 0x1p-24;
        const ConstMat x = op.input(dtype, rows, cols);
        op.kernels.column_sum(op.ctx, {x, op.output(DType::kF32, 1, cols, {.absolute = bound})});
      });
}

TEST_F(Reduce, SumOfSquaresIsExactToF64) {
  std::vector<int64_t> lengths = tails();
  lengths.insert(lengths.end(), {0, 32768, 100001});
  for (int64_t n : lengths)
    check([&](OpRun& op) {
      const float* x = op.input(DType::kF32, 1, n).row<float>(0);
      op.result(op.kernels.sum_squares(op.ctx, x, n), {.absolute = 1e-300, .relative = double(n + 1) * 0x1p-53});
    });
}

TEST_F(Reduce, SumOfSquaresNeitherOverflowsNorHidesNaN) {
  for (Isa isa : {Isa::kReference, Isa::kAvx2, Isa::kAvx3}) {
    if (!isa_supported(isa)) continue;
    Context ctx{three_, silent_log(), isa, {}};
    std::vector<float> x(70000, 0.0f);
    x[69999] = 1e30f;
    EXPECT_NEAR(kernels(ctx).sum_squares(ctx, x.data(), 70000) / 1e60, 1, 1e-6);
    x[40000] = INFINITY;
    EXPECT_EQ(kernels(ctx).sum_squares(ctx, x.data(), 70000), INFINITY);
    x[1] = NAN;
    EXPECT_TRUE(std::isnan(kernels(ctx).sum_squares(ctx, x.data(), 70000)));
  }
}

}  // namespace
}  // namespace espalier
