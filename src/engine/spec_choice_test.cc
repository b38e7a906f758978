#include "engine/spec_choice.h"

#include <gtest/gtest.h>

#include "models/golden_model.h"

namespace espalier {
namespace {

constexpr SpecCosts kShared = {.target_s = 0.05, .target_node_s = 0.003, .draft_s = 0.015, .draft_node_s = 0.001};

TEST(SpecChoice, ADraftAsSlowAsTheModelIsNotUsed) {
  SpecCosts costs = kShared;
  costs.draft_s = costs.target_s;
  const SpecChoice choice = choose_speculation(costs, {}, 7);
  EXPECT_FALSE(choice.speculates);
  EXPECT_EQ(choice.text(), "plain decoding: a draft would not gain");
}

TEST(SpecChoice, NeitherIsOneWhoseGuessesCostAsMuchAsTokens) {
  SpecCosts costs = kShared;
  costs.target_node_s = costs.target_s;
  EXPECT_FALSE(choose_speculation(costs, {}, 7).speculates);
}

TEST(SpecChoice, CoresOfItsOwnAreGivenWhereTheyCostTheModelLittle) {
  SpecCosts slow = kShared, fast = kShared;
  slow.target_s *= 3;
  fast.target_s *= 1.05;
  const SpecChoice serial = choose_speculation(kShared, std::vector<SpecSplit>{{1, slow}}, 7);
  EXPECT_TRUE(serial.speculates);
  EXPECT_FALSE(serial.async);
  const SpecChoice async = choose_speculation(kShared, std::vector<SpecSplit>{{1, slow}, {2, fast}}, 7);
  EXPECT_TRUE(async.async);
  EXPECT_EQ(async.draft_threads, 2);
  EXPECT_GT(async.gain, serial.gain);
  EXPECT_NE(async.text().find("async with 2 cores of its own"), std::string::npos) << async.text();
}

TEST(SpecChoice, CheapVerificationAsksForMoreGuesses) {
  SpecCosts cheap = kShared, dear = kShared;
  cheap.target_node_s = 0;
  cheap.draft_s = 0.001;
  dear.target_node_s = 0.02;
  EXPECT_GT(choose_speculation(cheap, {}, 63).guesses, choose_speculation(dear, {}, 63).guesses);
  EXPECT_LE(choose_speculation(cheap, {}, 4).guesses, 4);
}

TEST(SpecChoice, CostsAreMeasuredTogetherAndBeside) {
  GoldenModel target("llama2", choose_isa()), draft("mistral", choose_isa());
  const SpecCosts serial = measure_serial(target.ctx, *target.model, *draft.model);
  ThreadPool one(1), other(1);
  Context ctx{one, silent_log(), choose_isa(), {}}, draft_ctx{other, silent_log(), choose_isa(), {}};
  const SpecCosts beside = measure_beside(ctx, *target.model, draft_ctx, *draft.model);
  for (const SpecCosts& costs : {serial, beside}) {
    EXPECT_GT(costs.target_s, 0);
    EXPECT_GT(costs.draft_s, 0);
    EXPECT_GE(costs.target_node_s, 0);
    EXPECT_GE(costs.draft_node_s, 0);
  }
}

}  // namespace
}  // namespace espalier
