#include "kernels/gemm.h"

#include "kernels/cache.h"
#include "kernels/op_case.h"

namespace espalier {
namespace {

class Gemm : public OpTest {
 protected:
  struct Case {
    int64_t m, n, k;
    bool a_transposed = false, b_transposed = false, accumulate = false, bias = false;
    DType in = DType::kF32, out = DType::kF32;
  };

  /// Terms are products of numbers uniform in [-1, 1): of variance 1/9, so a partial sum of j terms is some sqrt(j) / 3
  /// and its rounding at most 2^-24 of that. The roundings of k terms, bias and C add up like independent numbers, to
  /// 2^-24 (k + 2) / sqrt(18); the bound is 17 times that.
  void check_case(const Case& c) {
    SCOPED_TRACE(fmt::format("m {} n {} k {} {}{} accumulate {} bias {} {} to {}", c.m, c.n, c.k,
                             c.a_transposed ? 'T' : 'N', c.b_transposed ? 'T' : 'N', c.accumulate, c.bias,
                             dtype_name(c.in), dtype_name(c.out)));
    check([&](OpRun& op) {
      GemmArgs g;
      g.a = c.a_transposed ? op.input(c.in, c.k, c.m) : op.input(c.in, c.m, c.k);
      g.a_transposed = c.a_transposed;
      g.b = c.b_transposed ? op.input(c.in, c.n, c.k) : op.input(c.in, c.k, c.n);
      g.b_transposed = c.b_transposed;
      if (c.bias) g.bias = op.input(DType::kF32, 1, c.n);
      const double terms = double(c.k + 2);
      g.c = op.output(c.out, c.m, c.n, {.absolute = 4 * terms * 0x1p-24});
      g.accumulate = c.accumulate;
      op.kernels.gemm(op.ctx, g);
    });
  }
};

TEST_F(Gemm, EveryTailOfEveryDimension) {
  for (int64_t n : tails()) {
    check_case({.m = n, .n = 5, .k = 9, .b_transposed = true});
    check_case({.m = 3, .n = n, .k = 11});
    check_case({.m = 7, .n = 17, .k = n, .a_transposed = true});
  }
}

TEST_F(Gemm, EveryFlag) {
  for (bool a_transposed : {false, true})
    for (bool b_transposed : {false, true})
      for (bool accumulate : {false, true})
        for (bool bias : {false, true})
          for (DType in : {DType::kF32, DType::kBF16})
            check_case({45, 71, 33, a_transposed, b_transposed, accumulate, bias, in, DType::kF32});
}

TEST_F(Gemm, RoundsToBF16Once) {
  for (bool bias : {false, true}) {
    check_case({.m = 29, .n = 50, .k = 40, .b_transposed = true, .bias = bias, .in = DType::kBF16,
                .out = DType::kBF16});
    check_case({.m = 3, .n = 40, .k = 1300, .bias = bias, .in = DType::kBF16, .out = DType::kBF16});
  }
}

TEST_F(Gemm, SumsDeeperThanAChunk) {
  check_case({.m = 20, .n = 37, .k = 2100, .b_transposed = true, .bias = true});
  check_case({.m = 5, .n = 3, .k = 1025, .a_transposed = true, .accumulate = true});
}

TEST_F(Gemm, ManyRowsOrColumns) {
  check_case({.m = 3, .n = 2500, .k = 100, .b_transposed = true});
  check_case({.m = 2300, .n = 4, .k = 101, .a_transposed = true, .accumulate = true});
}

// Too large for the reference, so against itself: an output has the same bits whatever is computed beside it. The
// whole needs several chunks of the shared operand, its corner one.
TEST_F(Gemm, CornerOfALargeProductHasTheSameBits) {
  constexpr int64_t kSize = 2150, kDepth = 1100, kCorner = 90;
  std::vector<float> a(kSize * kDepth), b(kSize * kDepth), whole(kSize * kSize), corner(kCorner * kCorner);
  const Rng rng(11, Purpose::kTest, 1);
  for (size_t i = 0; i < a.size(); ++i) a[i] = rng.uniform(2 * i) - 0.5f, b[i] = rng.uniform(2 * i + 1) - 0.5f;
  for (Isa isa : {Isa::kAvx2, Isa::kAvx3}) {
    if (!isa_supported(isa)) continue;
    Context ctx{three_, silent_log(), isa, {}};
    GemmArgs args{.a = mat(a.data(), kSize, kDepth), .b = mat(b.data(), kSize, kDepth), .b_transposed = true,
                  .c = mat(whole.data(), kSize, kSize)};
    kernels(ctx).gemm(ctx, args);
    args.a = sub_rows(args.a, kSize - kCorner, kCorner);
    args.b = sub_rows(args.b, kSize - kCorner, kCorner);
    args.c = mat(corner.data(), kCorner, kCorner);
    kernels(ctx).gemm(ctx, args);
    for (int64_t i = 0; i < kCorner; ++i)
      ASSERT_EQ(std::memcmp(&corner[size_t(i * kCorner)], &whole[size_t((kSize - kCorner + i + 1) * kSize - kCorner)],
                            kCorner * sizeof(float)), 0)
          << isa_name(isa) << " row " << i;
  }
}

// The processor's bf16 instruction, where it exists and whatever it is worth here. It rounds products and sums like
// f32 but for numbers below 2^-126.
TEST_F(Gemm, PairsOfBF16) {
  setenv("ESP_BF16", "pairs", 1);
  for (bool a_transposed : {false, true})
    for (bool b_transposed : {false, true})
      for (int64_t k : {1, 2, 3, 32, 45, 64, 2101})
        check_case({30, 47, k, a_transposed, b_transposed, k % 3 == 0, k % 2 == 0, DType::kBF16, DType::kF32});
  check_case({.m = 29, .n = 50, .k = 41, .b_transposed = true, .bias = true, .in = DType::kBF16, .out = DType::kBF16});
  check_case({.m = 3, .n = 40, .k = 2301, .bias = true, .in = DType::kBF16, .out = DType::kBF16});
  unsetenv("ESP_BF16");
}

TEST_F(Gemm, SumOfNothingIsTheBias) { check_case({.m = 3, .n = 5, .k = 0, .bias = true}); }

TEST_F(Gemm, NothingToWrite) {
  check_case({.m = 0, .n = 5, .k = 3});
  check_case({.m = 5, .n = 0, .k = 3});
}

// A training step allocates nothing after its first round: neither may the products in it.
TEST_F(Gemm, KeepsItsMemory) {
  std::vector<float> a(100 * 300), b(200 * 300), c(100 * 200);
  Context ctx{three_, silent_log(), choose_isa(), {}};
  const GemmArgs args{.a = mat(a.data(), 100, 300), .b = mat(b.data(), 200, 300), .b_transposed = true,
                      .c = mat(c.data(), 100, 200)};
  kernels(ctx).gemm(ctx, args);
  const float* before = scratch(ctx).get<float>(Slot::kGemmPacked, 1);
  kernels(ctx).gemm(ctx, args);
  EXPECT_EQ(scratch(ctx).get<float>(Slot::kGemmPacked, 1), before);
}

}  // namespace
}  // namespace espalier
