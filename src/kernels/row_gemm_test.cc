#include "kernels/op_case.h"

namespace espalier {
namespace {

class RowGemm : public OpTest {
 protected:
  /// For the bound see gemm_test.cc.
  void check_case(int64_t m, int64_t n, int64_t k, DType w, bool bias = false) {
    SCOPED_TRACE(fmt::format("m {} n {} k {} w {} bias {}", m, n, k, dtype_name(w), bias));
    check([&](OpRun& op) {
      RowGemmArgs g{.x = op.input(DType::kF32, m, k), .w = op.input(w, n, k)};
      if (bias) g.bias = op.input(DType::kF32, 1, n);
      g.y = op.output(DType::kF32, m, n, {.absolute = 4 * double(k + 2) * 0x1p-24});
      op.kernels.row_gemm(op.ctx, g);
    });
  }
};

TEST_F(RowGemm, MatchesReference) {
  for (DType w : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (int64_t k : tails()) check_case(3, 5, k, w);
    for (int64_t n : tails()) check_case(2, n, 19, w, true);
    for (int64_t m : tails()) check_case(m, 6, 21, w);
  }
}

TEST_F(RowGemm, NothingToWrite) {
  check_case(0, 5, 3, DType::kF32);
  check_case(2, 0, 3, DType::kF32);
}

// A request alone answers what it answers in a batch: row i of any number of rows has the bits of the row alone.
TEST_F(RowGemm, RowsDoNotDependOnEachOther) {
  constexpr int64_t kRows = 61, kN = 37, kK = 203;
  const std::vector<float> x = [] {
    std::vector<float> v(kRows * kK);
    const Rng rng(3, Purpose::kTest, 1);
    for (size_t i = 0; i < v.size(); ++i) v[i] = rng.uniform(i) - 0.5f;
    return v;
  }();
  std::vector<bf16> w(kN * kK);
  const Rng rng(3, Purpose::kTest, 2);
  for (size_t i = 0; i < w.size(); ++i) w[i] = bf16(rng.uniform(i) - 0.5f);
  for (Isa isa : {Isa::kAvx2, Isa::kAvx3}) {
    if (!isa_supported(isa)) continue;
    Context ctx{one_, silent_log(), isa, {}};
    std::vector<float> alone(kRows * kN);
    for (int64_t i = 0; i < kRows; ++i)
      kernels(ctx).row_gemm(
          ctx, {mat(&x[size_t(i * kK)], 1, kK), mat(w.data(), kN, kK), mat(&alone[size_t(i * kN)], 1, kN)});
    for (int64_t rows = 1; rows <= kRows; ++rows) {
      std::vector<float> y(size_t(rows * kN));
      kernels(ctx).row_gemm(ctx, {mat(x.data(), rows, kK), mat(w.data(), kN, kK), mat(y.data(), rows, kN)});
      EXPECT_EQ(std::memcmp(y.data(), alone.data(), y.size() * sizeof(float)), 0) << isa_name(isa) << " rows " << rows;
    }
  }
}

}  // namespace
}  // namespace espalier
