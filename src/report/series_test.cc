#include "report/series.h"

#include <gtest/gtest.h>

#include <cmath>

namespace espalier {
namespace {

Series line(int n, double (*f)(int)) {
  Series s{"s", {}, {}};
  for (int i = 0; i < n; ++i) s.x.push_back(i), s.y.push_back(f(i));
  return s;
}

std::vector<std::string> labels(double low, double high, bool log, int wanted) {
  const Axis axis(low, high, log, wanted);
  std::vector<std::string> texts;
  for (const double tick : axis.ticks()) texts.push_back(axis.label(tick));
  return texts;
}

TEST(Series, SmoothingKeepsConstantsAndSkipsGaps) {
  const std::vector<double> y = {3, 3, NAN, 3, 3};
  const std::vector<double> s = smoothed(y, 10);
  EXPECT_TRUE(std::isnan(s[2]));
  for (const size_t i : {0, 1, 3, 4}) EXPECT_DOUBLE_EQ(s[i], 3);
}

TEST(Series, SmoothingLessensNoiseWithoutLaggingAtTheStart) {
  const Series noisy = line(2000, [](int i) { return 2 + 8 * std::exp(-i / 100.0) + (i % 2 ? 0.5 : -0.5); });
  const std::vector<double> s = smoothed(noisy.y, 50);
  for (int i = 20; i < 2000; ++i) EXPECT_NEAR(s[size_t(i)], 2 + 8 * std::exp(-i / 100.0), 0.7) << i;
  // Alternating noise of 0.5 under weights 1/50 leaves 0.5 / (2 * 50 - 1).
  for (int i = 1900; i < 2000; ++i) EXPECT_NEAR(s[size_t(i)], 2, 0.5 / 99 + 1e-3);
}

TEST(Series, ThinningKeepsSpikesAndOrder) {
  Series s = line(100000, [](int) { return 1.0; });
  s.y[12345] = 50;
  s.y[77777] = -50;
  s.y[500] = NAN;
  const Series few = thinned(s, 300);
  EXPECT_LE(few.x.size(), 600u);
  EXPECT_TRUE(std::is_sorted(few.x.begin(), few.x.end()));
  EXPECT_EQ(*std::max_element(few.y.begin(), few.y.end()), 50);
  EXPECT_EQ(*std::min_element(few.y.begin(), few.y.end()), -50);
  EXPECT_EQ(thinned(line(10, [](int i) { return double(i); }), 300).x.size(), 10u);
}

TEST(Axis, RoundTicks) {
  using Texts = std::vector<std::string>;
  EXPECT_EQ(labels(0, 10, false, 5), (Texts{"0", "2", "4", "6", "8", "10"}));
  EXPECT_EQ(labels(1.93, 2.61, false, 4), (Texts{"2.0", "2.2", "2.4", "2.6"}));
  EXPECT_EQ(labels(0, 6e-4, false, 3), (Texts{"0", "2e-4", "4e-4", "6e-4"}));
  EXPECT_EQ(labels(0, 1200, false, 3), (Texts{"0", "500", "1000"}));
  EXPECT_EQ(labels(0, 40000, false, 4), (Texts{"0", "10k", "20k", "30k", "40k"}));
  EXPECT_EQ(labels(1, 1000, true, 6), (Texts{"1", "10", "100", "1k"}));
  EXPECT_EQ(labels(2048, 2.5e6, true, 6), (Texts{"10k", "100k", "1M"}));
}

TEST(Axis, OddRangesStillGiveAnAxis) {
  for (const bool log : {false, true})
    for (const auto& [low, high] :
         {std::pair(0.0, 0.0), {5.0, 5.0}, {-1.0, -1.0}, {0.0, 1e-300}, {-1e9, 1e9}, {3.0, 4.0}}) {
      const Axis axis(low, high, log, 5);
      EXPECT_GE(axis.place(high), axis.place(low));
      EXPECT_LT(axis.ticks().size(), 40u);
      for (const double tick : axis.ticks()) EXPECT_FALSE(axis.label(tick).empty());
    }
  EXPECT_FALSE(Axis(1, 100, true, 5).holds(0));
  EXPECT_FALSE(Axis(1, 100, false, 5).holds(NAN));
}

}  // namespace
}  // namespace espalier
