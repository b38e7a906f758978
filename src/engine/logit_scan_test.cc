#include "engine/logit_scan.h"

#include <cmath>
#include <functional>
#include <set>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/rng.h"

namespace espalier {
namespace {

std::vector<float> random_logits(size_t n, uint64_t seed) {
  const Rng rng(seed, Purpose::kTest);
  std::vector<float> logits(n);
  for (size_t i = 0; i < n; ++i) logits[i] = 5 * rng.normal(i);
  return logits;
}

const std::vector<size_t> kSizes = {1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 1000, 4097};

TEST(LogitScan, FindsTheBestAndTheFirstOfSeveral) {
  for (const size_t n : kSizes) {
    std::vector<float> logits = random_logits(n, n);
    LogitScan scan;
    for (size_t at = 0; at < n; at += 1 + n / 50) {
      std::vector<float> x = logits;
      x[at] = x[n - 1] = 100;
      scan.scan(x);
      EXPECT_EQ(scan.best(), 100);
      EXPECT_EQ(scan.best_id(), int32_t(at));
    }
  }
}

TEST(LogitScan, SeesEveryUnsoundLogit) {
  for (const size_t n : kSizes)
    for (size_t at = 0; at < n; at += 1 + n / 50)
      for (const float bad : {NAN, INFINITY}) {
        std::vector<float> logits = random_logits(n, n);
        logits[at] = bad;
        EXPECT_THROW(LogitScan().scan(logits), Error) << at << " of " << n;
      }
  EXPECT_THROW(LogitScan().scan(std::vector<float>(130, -INFINITY)), Error);
}

TEST(LogitScan, AFloorOfRankIsReachedByAsMany) {
  for (const size_t n : kSizes) {
    const std::vector<float> logits = random_logits(n, n);
    LogitScan scan;
    scan.scan(logits);
    for (const int64_t count : {1, 2, 5, 40, 64, 10000}) {
      const float floor = scan.floor_of_rank(count);
      std::set<int32_t> seen, expected;
      scan.each_from(floor, [&](int32_t id, float logit) {
        EXPECT_EQ(logit, logits[size_t(id)]);
        seen.insert(id);
      });
      for (size_t i = 0; i < n; ++i)
        if (logits[i] >= floor) expected.insert(int32_t(i));
      EXPECT_EQ(seen, expected);
      EXPECT_GE(int64_t(seen.size()), std::min(count, int64_t(n)));
    }
  }
}

TEST(LogitScan, SumsOfExponentialsKeepTheirBound) {
  for (const size_t n : kSizes) {
    std::vector<float> logits = random_logits(n, n);
    if (n > 2) logits[1] = -INFINITY, logits[2] = -1e30f;
    LogitScan scan;
    scan.scan(logits);
    double expected = 0;
    for (const float x : logits) expected += std::exp(double(x) - double(scan.best()));
    EXPECT_NEAR(sum_exp(logits, scan.best()), expected, expected * 0x1p-19);
  }
  for (float x = 0; x > -87; x -= 0.013f) {
    const std::vector<float> one = {x};
    EXPECT_NEAR(sum_exp(one, 0), std::exp(double(x)), std::exp(double(x)) * 0x1p-19) << x;
  }
}

}  // namespace
}  // namespace espalier
