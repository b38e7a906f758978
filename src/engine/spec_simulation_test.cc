#include "engine/spec_simulation.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace espalier {
namespace {

SpecPlan chain(double a, int64_t k) {
  return {.target_s = 1, .draft_s = 0.1, .places = {{1, {a}}}, .guesses = k, .steps = k};
}

// A chain of k guesses, each right with probability a, gives (1 - a^(k+1)) / (1 - a) tokens a pass (Leviathan et al.
// 2023, equation 1).
TEST(SpecSimulation, AChainGivesTheTokensOfTheFormula) {
  for (const double a : {0.5, 0.8, 0.95})
    for (const int64_t k : {1, 4, 8}) {
      const SpecForecast f = simulate_speculation(chain(a, k), 40000);
      const double expected = (1 - std::pow(a, double(k + 1))) / (1 - a);
      // Four standard deviations of the mean of 40,000 numbers between 1 and k + 1.
      EXPECT_NEAR(f.tokens_a_pass, expected, 4 * double(k) / 2 / 200) << a << " " << k;
      EXPECT_NEAR(f.tokens_per_s, f.tokens_a_pass / (1 + 0.1 * double(k)), 1e-9);
    }
}

TEST(SpecSimulation, ASerialChainPaysForEveryPass) {
  const SpecForecast f = simulate_speculation(chain(0.8, 4));
  EXPECT_NEAR(f.target_idle, 0.4 / 1.4, 1e-9);
  EXPECT_DOUBLE_EQ(f.plain_tokens_per_s, 1);
}

// Beside the pass, on resources of its own, the draft is off the critical path but for the misses.
TEST(SpecSimulation, AnAsyncDraftHidesItsPasses) {
  SpecPlan plan{.target_s = 1, .target_node_s = 0.01, .draft_s = 0.25, .places = {{1, {0.75, 0.12, 0.05}}},
                .guesses = 8, .width = 4, .children = 3, .steps = 4};
  const SpecForecast serial = simulate_speculation(plan);
  plan.async = true;
  const SpecForecast async = simulate_speculation(plan);
  EXPECT_GT(async.tokens_per_s, 1.2 * serial.tokens_per_s);
  EXPECT_LT(async.target_idle, serial.target_idle / 2);
  EXPECT_GT(async.hits, 0.5);
  // It sees less of the text when it guesses, so that a pass accepts a little less (the paper: 9 % less).
  EXPECT_LT(async.tokens_a_pass, serial.tokens_a_pass);
}

TEST(SpecSimulation, ADraftThatIsNeverRightOnlyCosts) {
  SpecPlan plan = chain(0, 4);
  const SpecForecast f = simulate_speculation(plan);
  EXPECT_DOUBLE_EQ(f.tokens_a_pass, 1);
  EXPECT_LT(f.tokens_per_s, f.plain_tokens_per_s);
  EXPECT_DOUBLE_EQ(f.hits, 0);
}

TEST(SpecSimulation, WhatMakesNoSenseIsNamed) {
  SpecPlan plan = chain(0.5, 2);
  plan.places[0].ranks = {0.8, 0.4};
  EXPECT_THROW(simulate_speculation(plan), Error);
  plan = chain(0.5, 2);
  plan.target_s = NAN;
  EXPECT_THROW(simulate_speculation(plan), Error);
  plan = chain(0.5, 2);
  plan.places[0].ranks.clear();
  EXPECT_THROW(simulate_speculation(plan), Error);
  plan.places.clear();
  EXPECT_THROW(simulate_speculation(plan), Error);
  plan = chain(0.5, 2);
  plan.places[0].share = 0;
  EXPECT_THROW(simulate_speculation(plan), Error);
}

}  // namespace
}  // namespace espalier
