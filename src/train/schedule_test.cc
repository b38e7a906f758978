#include "train/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace espalier {
namespace {

OptimConfig with(const char* schedule) {
  OptimConfig o;
  o.schedule = schedule;
  o.warmup_steps = 10;
  o.min_lr_ratio = 0.1;
  o.decay_fraction = 0.2;
  return o;
}

double at(const OptimConfig& o, int64_t step, int64_t total) {
  return rate_factor(o, step, share_done(step, o.warmup_steps, total));
}

TEST(Schedule, WarmUpRisesByEqualStepsToThePeak) {
  for (const char* name : {"cosine", "linear", "wsd", "constant"}) {
    const OptimConfig o = with(name);
    for (int64_t step = 0; step < 10; ++step) EXPECT_DOUBLE_EQ(at(o, step, 110), double(step + 1) / 10) << name;
    EXPECT_DOUBLE_EQ(at(o, 10, 110), 1) << name;
  }
}

TEST(Schedule, EndsAtTheMinimumExceptConstant) {
  for (const char* name : {"cosine", "linear", "wsd"}) EXPECT_NEAR(at(with(name), 110, 110), 0.1, 1e-12) << name;
  EXPECT_DOUBLE_EQ(at(with("constant"), 110, 110), 1);
}

TEST(Schedule, HasTheShapeOfItsName) {
  EXPECT_NEAR(at(with("cosine"), 60, 110), 0.1 + 0.9 * 0.5, 1e-12);  // half way
  EXPECT_NEAR(at(with("cosine"), 35, 110), 0.1 + 0.9 * 0.5 * (1 + std::sqrt(0.5)), 1e-12);
  EXPECT_NEAR(at(with("linear"), 35, 110), 1 - 0.9 * 0.25, 1e-12);
  EXPECT_DOUBLE_EQ(at(with("wsd"), 89, 110), 1);                            // before the last fifth
  EXPECT_NEAR(at(with("wsd"), 100, 110), 1 - 0.9 * std::sqrt(0.5), 1e-12);  // in the middle of it
}

TEST(Schedule, NeverRisesAfterTheWarmUp) {
  for (const char* name : {"cosine", "linear", "wsd", "constant"})
    for (int64_t step = 10; step < 120; ++step) EXPECT_LE(at(with(name), step + 1, 110), at(with(name), step, 110));
}

TEST(Schedule, ARunShorterThanItsWarmUpOnlyRises) {
  const OptimConfig o = with("cosine");
  EXPECT_DOUBLE_EQ(at(o, 4, 5), 0.5);
  OptimConfig none = o;
  none.warmup_steps = 0;
  EXPECT_DOUBLE_EQ(at(none, 0, 100), 1);
}

}  // namespace
}  // namespace espalier
