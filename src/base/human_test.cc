#include "base/human.h"

#include <gtest/gtest.h>

#include <limits>

namespace espalier {
namespace {

TEST(Human, Counts) {
  EXPECT_EQ(human_count(0), "0");
  EXPECT_EQ(human_count(999), "999");
  EXPECT_EQ(human_count(0.5), "0.50");
  EXPECT_EQ(human_count(12.34), "12.3");
  EXPECT_EQ(human_count(999.7), "1.00k");
  EXPECT_EQ(human_count(1234), "1.23k");
  EXPECT_EQ(human_count(12345), "12.3k");
  EXPECT_EQ(human_count(999999), "1.00M");
  EXPECT_EQ(human_count(-124e6), "-124M");
  EXPECT_EQ(human_count(7e18), "7000000T");
  EXPECT_EQ(human_count(std::numeric_limits<double>::infinity()), "inf");
}

TEST(Human, Bytes) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes(2.0 * (1 << 30)), "2.0 GiB");
}

TEST(Human, Durations) {
  EXPECT_EQ(human_duration(0), "0 ms");
  EXPECT_EQ(human_duration(0.0042), "4.2 ms");
  EXPECT_EQ(human_duration(0.042), "42 ms");
  EXPECT_EQ(human_duration(0.421), "0.42 s");
  EXPECT_EQ(human_duration(4.21), "4.2 s");
  EXPECT_EQ(human_duration(12.4), "12 s");
  EXPECT_EQ(human_duration(59.6), "1:00");
  EXPECT_EQ(human_duration(187), "3:07");
  EXPECT_EQ(human_duration(7387), "2:03:07");
  EXPECT_EQ(human_duration(-1), "?");
  EXPECT_EQ(human_duration(std::numeric_limits<double>::quiet_NaN()), "?");
}

}  // namespace
}  // namespace espalier
