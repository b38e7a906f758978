#include "train/guard.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace espalier {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

TEST(Guard, RefusesWhatIsNotFinite) {
  Guard guard(3, 0);
  EXPECT_EQ(guard.judge(3, 1), Verdict::kGood);
  EXPECT_EQ(guard.judge(kNaN, 1), Verdict::kNotFinite);
  EXPECT_EQ(guard.judge(3, kInf), Verdict::kNotFinite);
  EXPECT_FALSE(guard.exhausted());
  EXPECT_EQ(guard.judge(3, 1), Verdict::kGood);
  EXPECT_EQ(guard.skipped_in_row(), 0);
  for (int i = 0; i < 3; ++i) guard.judge(kInf, kNaN);
  EXPECT_TRUE(guard.exhausted());
  EXPECT_EQ(guard.skipped(), 5);
}

TEST(Guard, RefusesSpikesOnceItKnowsTheLoss) {
  Guard guard(10, 6);
  EXPECT_EQ(guard.judge(11, 1), Verdict::kGood);
  EXPECT_EQ(guard.judge(50, 1), Verdict::kGood) << "nothing is known yet";
  for (int i = 0; i < 64; ++i) EXPECT_EQ(guard.judge(4 + 0.1 * (i % 2), 1), Verdict::kGood);
  EXPECT_EQ(guard.judge(4.2, 1), Verdict::kGood);
  EXPECT_EQ(guard.judge(6, 1), Verdict::kSpike);
  EXPECT_EQ(guard.judge(1, 1), Verdict::kGood) << "falling is no spike";
}

TEST(Guard, AFlatStretchDoesNotMakeEveryChangeASpike) {
  Guard guard(10, 6);
  for (int i = 0; i < 64; ++i) guard.judge(2, 1);
  EXPECT_EQ(guard.judge(2.1, 1), Verdict::kGood);  // 5 %: within 6 x 1 %
  EXPECT_EQ(guard.judge(2.2, 1), Verdict::kSpike);
}

TEST(Guard, GoesOnFromItsState) {
  Guard guard(10, 6);
  for (int i = 0; i < 100; ++i) guard.judge(3 + 0.01 * i, 1);
  guard.judge(kNaN, 1);
  Guard again(10, 6);
  again.restore(guard.state());
  EXPECT_EQ(again.skipped(), 1);
  EXPECT_EQ(again.skipped_in_row(), 1);
  for (int i = 0; i < 50; ++i) {
    const double loss = 4 + 0.02 * i;
    EXPECT_EQ(again.judge(loss, 1), guard.judge(loss, 1));
  }
  EXPECT_EQ(again.state().window, guard.state().window);
}

}  // namespace
}  // namespace espalier
