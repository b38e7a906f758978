#include "engine/logprobs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/rng.h"

namespace espalier {
namespace {

// The library's sum errs by 2^-19 of itself, its logarithm by as much; rounding the result to f32 adds 2^-24 of up to
// 40.
constexpr double kBound = 0x1p-19 + 40 * 0x1p-24;

TEST(Logprobs, AreTheLogSoftmaxOfTheRawLogits) {
  for (const size_t n : {1, 3, 64, 65, 1000, 5000}) {
    const Rng rng(n, Purpose::kTest);
    std::vector<float> logits(n);
    for (size_t i = 0; i < n; ++i) logits[i] = std::round(rng.normal(i) * 16) / 4;  // with ties
    double total = 0;
    for (const float x : logits) total += std::exp(double(x));
    std::vector<int32_t> order(n);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int32_t a, int32_t b) { return logits[size_t(a)] > logits[size_t(b)]; });
    const auto expected = [&](int32_t id) { return double(logits[size_t(id)]) - std::log(total); };
    for (const int64_t top : {0, 1, 5, 20}) {
      const int32_t id = int32_t(n / 2);
      const Logprobs actual = logprobs(logits, id, top);
      EXPECT_EQ(actual.chosen.id, id);
      EXPECT_NEAR(actual.chosen.logprob, expected(id), kBound);
      ASSERT_EQ(actual.top.size(), std::min(n, size_t(top)));
      for (size_t i = 0; i < actual.top.size(); ++i) {
        EXPECT_EQ(actual.top[i].id, order[i]);
        EXPECT_NEAR(actual.top[i].logprob, expected(order[i]), kBound);
      }
    }
  }
}

TEST(Logprobs, OfMaskedTokensAreMinusInfinity) {
  const Logprobs actual = logprobs(std::vector<float>{-INFINITY, 2, 2}, 0, 20);
  EXPECT_EQ(actual.chosen.logprob, -INFINITY);
  ASSERT_EQ(actual.top.size(), 2u);
  EXPECT_EQ(actual.top[0].id, 1);
  EXPECT_NEAR(actual.top[1].logprob, -std::log(2.0), kBound);
}

TEST(Logprobs, RefusesOtherCountsAndNoDistribution) {
  EXPECT_THROW(logprobs(std::vector<float>{0, 1}, 0, 21), Error);
  EXPECT_THROW(logprobs(std::vector<float>{0, 1}, 0, -1), Error);
  EXPECT_THROW(logprobs(std::vector<float>{0, NAN}, 0, 1), Error);
}

}  // namespace
}  // namespace espalier
