#include "bench/bench.h"

#include <set>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json.h"
#include "base/json_value.h"
#include "bench/median.h"

namespace espalier {
namespace {

TEST(Median, IsTheMiddleOrTheMeanOfBoth) {
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({9, 1, 5}), 5);
  EXPECT_EQ(median({4, 1, 2, 9}), 3);
}

TEST(Bench, NamesAreUniqueAndFound) {
  std::set<std::string> names;
  for (const Bench* bench : all_benches()) {
    EXPECT_TRUE(names.insert(bench->name).second) << bench->name;
    EXPECT_EQ(&find_bench(bench->name), bench);
  }
}

TEST(Bench, AnUnknownNameIsAnErrorWithTheNearest) {
  try {
    find_bench("trian");
    FAIL() << "accepted";
  } catch (const Error& e) {  // the test's edge
    EXPECT_EQ(e.code(), Code::kUsage);
    EXPECT_NE(std::string(e.what()).find("train"), std::string::npos);
  }
}

TEST(Bench, JsonHasTheFieldsThatScriptsRelyOn) {
  const BenchResult result{.name = "x", .value = 2, .unit = "s", .limit = 4, .fraction_of_limit = 0.5,
                           .cells = {{"a", 1}}};
  const Json json = parse_json(bench_json(result), "test");
  EXPECT_EQ(json_get<std::string>(json, "name", "test"), "x");
  EXPECT_EQ(json_get<double>(json, "value", "test"), 2);
  EXPECT_EQ(json_get<double>(json, "limit", "test"), 4);
  EXPECT_EQ(json_get<double>(json, "fraction_of_limit", "test"), 0.5);
  EXPECT_FALSE(json_get<std::string>(json, "machine_class", "test").empty());
  EXPECT_EQ(json["cells"]["a"], 1);
}

// The whole of a small benchmark, once: two layers of the demo size for one measured step.
TEST(Bench, TrainSmallRuns) {
  ThreadPool pool(2);
  Context ctx{pool, silent_log(), choose_isa()};
  const BenchResult result = find_bench("train-small").run(ctx, silent_progress(), {.dtype = "f32", .repeats = 1,
                                                                                     .batch = 1, .quick = true});
  EXPECT_GT(result.value, 0);
  EXPECT_GT(result.limit, 0);
  EXPECT_GT(result.fraction_of_limit, 0);
}

}  // namespace
}  // namespace espalier
