#include "models/rope_table.h"

#include <gtest/gtest.h>

#include "base/json_value.h"
#include "models/registry.h"

namespace espalier {
namespace {

// transformers computes frequencies in f32, whose powers err by some 2^-22.
TEST(RopeTable, FrequenciesOfEveryScalingAreThoseOfTransformers) {
  const Json golden = read_json_file(std::string(ESP_SOURCE_DIR) + "/tests/golden/rope.json");
  ASSERT_EQ(golden.at("ropes").size(), 8u);
  for (const Json& rope : golden.at("ropes")) {
    SCOPED_TRACE(rope.at("config").at("rope_parameters").dump());
    const ArchSpec spec = read_config(rope.at("config"), "config.json");
    const auto want = rope.at("inv_freq").get<std::vector<double>>();
    ASSERT_EQ(int64_t(want.size()), spec.rotary() / 2);
    for (size_t i = 0; i < want.size(); ++i)
      EXPECT_NEAR(rope_frequency(global_rope(spec), int64_t(i)), want[i], 2e-6 * want[i]) << i;
    EXPECT_NEAR(rope_amplitude(spec.rope_scaling), rope.at("attention_scaling").get<double>(), 1e-12);
    EXPECT_TRUE(read_config(Json::parse(write_config(spec, DType::kF32).dump()), "written") == spec);
  }
}

TEST(RopeTable, HoldsTheAmplitudeAndGrows) {
  RopeTable table({100, 4, {.kind = RopeScaling::Kind::kYarn, .factor = 4, .attention_factor = 1.5}});
  const ConstMat few = table.up_to(3);
  EXPECT_EQ(few.cols, 4);
  EXPECT_EQ(few.row<float>(0)[0], 1.5f);
  EXPECT_EQ(few.row<float>(0)[2], 0);
  const float kept = few.row<float>(2)[3];
  EXPECT_EQ(table.up_to(5000).row<float>(2)[3], kept);
}

}  // namespace
}  // namespace espalier
