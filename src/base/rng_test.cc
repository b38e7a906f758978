#include "base/rng.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace espalier {
namespace {

// Known answers of Random123 (its file kat_vectors, lines "philox4x32 10").
TEST(Rng, PhiloxKnownAnswers) {
  using Block = std::array<uint32_t, 4>;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}), (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Rng, ANumberDependsOnItsPlaceAlone) {
  const Rng rng(7, Purpose::kTest, 3);
  EXPECT_EQ(rng.u32(1000), Rng(7, Purpose::kTest, 3).u32(1000));
  std::set<uint32_t> firsts;
  for (uint64_t seed : {7, 8})
    for (Purpose purpose : {Purpose::kInit, Purpose::kDropout, Purpose::kTest})
      for (uint64_t stream : {uint64_t{3}, uint64_t{4}, uint64_t{3} << 40})
        firsts.insert(Rng(seed, purpose, stream).u32(0));
  EXPECT_EQ(firsts.size(), 18u) << "streams of different seeds, purposes or steps share their numbers";
}

TEST(Rng, WordsOfABlockAreConsistent) {
  const Rng rng(1, Purpose::kTest);
  for (uint64_t i = 0; i < 8; ++i) {
    EXPECT_EQ(rng.u32(i), rng.block(i / 4)[i % 4]);
    EXPECT_EQ(uint32_t(rng.u64(i)), rng.u32(2 * i));
    EXPECT_EQ(uint32_t(rng.u64(i) >> 32), rng.u32(2 * i + 1));
  }
}

TEST(Rng, UniformIsUniform) {
  const Rng rng(42, Purpose::kTest);
  constexpr int kCells = 100, kDraws = 200000;
  std::vector<int> counts(kCells, 0);
  for (uint64_t i = 0; i < kDraws; ++i) {
    const float u = rng.uniform(i);
    ASSERT_GE(u, 0.0f);
    ASSERT_LT(u, 1.0f);
    ++counts[size_t(u * kCells)];
  }
  // Chi-squared with 99 degrees of freedom: mean 99, deviation sqrt(198) = 14; five deviations either side.
  double chi2 = 0;
  for (const int count : counts)
    chi2 += (count - kDraws / kCells) * double(count - kDraws / kCells) / (kDraws / kCells);
  EXPECT_GT(chi2, 99 - 5 * 14.1);
  EXPECT_LT(chi2, 99 + 5 * 14.1);
}

TEST(Rng, BelowCoversItsRangeEvenly) {
  const Rng rng(5, Purpose::kTest);
  std::vector<int> counts(7, 0);
  for (uint64_t i = 0; i < 70000; ++i) ++counts[rng.below(i, 7)];
  // Each count is binomial: mean 10000, deviation sqrt(70000 * 1/7 * 6/7) = 93; five deviations.
  for (const int count : counts) EXPECT_NEAR(count, 10000, 5 * 93);
  EXPECT_EQ(rng.below(3, 1), 0u);
  EXPECT_LT(rng.below(3, ~uint64_t{0}), ~uint64_t{0});
}

TEST(Rng, NormalHasItsMoments) {
  const Rng rng(9, Purpose::kTest);
  constexpr int n = 400000;
  double sum = 0, sum2 = 0, sum3 = 0, sum4 = 0, neighbours = 0, before = 0;
  for (uint64_t i = 0; i < n; ++i) {
    const double x = rng.normal(i);
    sum += x, sum2 += x * x, sum3 += x * x * x, sum4 += x * x * x * x, neighbours += x * before;
    before = x;
  }
  // Deviations of the sample moments of a standard normal: 1, sqrt(2), sqrt(15), sqrt(96), 1 over sqrt(n); five each.
  const double root = 5 / std::sqrt(double(n));
  EXPECT_NEAR(sum / n, 0, root);
  EXPECT_NEAR(sum2 / n, 1, root * std::sqrt(2));
  EXPECT_NEAR(sum3 / n, 0, root * std::sqrt(15));
  EXPECT_NEAR(sum4 / n, 3, root * std::sqrt(96));
  EXPECT_NEAR(neighbours / n, 0, root);
}

}  // namespace
}  // namespace espalier
