#include "eval/perplexity.h"

#include <cmath>

#include <gtest/gtest.h>

#include "base/error.h"
#include "models/golden_model.h"

namespace espalier {
namespace {

struct Case {
  std::string name;
  Isa isa;
};
class GoldenPerplexity : public testing::TestWithParam<Case> {};
std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const std::string& name : golden_names())
    for (const Isa isa : isas_here()) cases.push_back({name, isa});
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Models, GoldenPerplexity, testing::ValuesIn(all_cases()),
                         [](const auto& test) { return test.param.name + "_" + isa_name(test.param.isa); });

double nll_of(const float* logits, int64_t vocab, int32_t id) {
  double sum = 0;
  for (int64_t v = 0; v < vocab; ++v) sum += std::exp(double(logits[v]) - double(logits[id]));
  return std::log(sum);
}

// The logits are those of transformers; each golden sequence is one chunk. A logit's relative error of 1e-4 (the
// issue's bound for f32) of logits below 16 moves a score by less than twice that much.
constexpr double kScoreBound = 2 * 16 * 1e-4;

TEST_P(GoldenPerplexity, EqualsTheDefinitionOnTransformersLogits) {
  GoldenModel g(GetParam().name, GetParam().isa);
  const Tensor logits = g.golden.tensor("logits");
  const int64_t vocab = g.model->spec().vocab, n = g.rows;
  const Perplexity p = perplexity(g.ctx, *g.model, g.ids, {.context = n, .rows = 1});
  EXPECT_EQ(p.chunks, 2);
  ASSERT_EQ(p.tokens_scored, 2 * (n - 1 - n / 2));
  double sum = 0;
  size_t next = 0;
  for (int64_t chunk = 0; chunk < 2; ++chunk)
    for (int64_t j = n / 2; j < n - 1; ++j, ++next) {
      const int64_t i = chunk * n + j + 1;
      const double nll = nll_of(logits.as<float>() + (i - 1) * vocab, vocab, g.ids[size_t(i)]);
      EXPECT_EQ(p.tokens[next].i, i);
      EXPECT_EQ(p.tokens[next].id, g.ids[size_t(i)]);
      EXPECT_NEAR(p.tokens[next].nll, nll, kScoreBound);
      sum += nll;
    }
  EXPECT_NEAR(p.nll, sum / double(p.tokens_scored), kScoreBound);
  EXPECT_DOUBLE_EQ(p.ppl, std::exp(p.nll));
}

TEST(Perplexity, AModelThatKnowsNothingIsAsPerplexedAsItsVocabularyIsLarge) {
  GoldenModel g("gpt2", choose_isa());
  Decoder zero(g.model->spec(), one_process_mesh(), DType::kF32, false);
  const Perplexity p = perplexity(g.ctx, zero, g.ids, {.context = 8});
  EXPECT_EQ(p.chunks, 6);
  EXPECT_EQ(p.tokens_scored, 6 * 3);
  EXPECT_NEAR(p.ppl, 61, 61 * 1e-6);  // the logarithm of a sum of 61 ones, in f32
}

TEST(Perplexity, WhatIsLeftOverIsNotUsed) {
  GoldenModel g("llama2", choose_isa());
  const std::span<const int32_t> ids(g.ids);
  const Perplexity whole = perplexity(g.ctx, *g.model, ids.first(20), {.context = 10});
  const Perplexity rest = perplexity(g.ctx, *g.model, ids.first(29), {.context = 10});
  EXPECT_EQ(rest.chunks, 2);
  EXPECT_EQ(rest.ppl, whole.ppl);
  EXPECT_EQ(perplexity(g.ctx, *g.model, ids.first(30), {.context = 10}).chunks, 3);
}

TEST(Perplexity, BosTakesThePlaceOfEachChunksFirstToken) {
  GoldenModel g("llama3", choose_isa());
  std::vector<int32_t> replaced = g.ids;
  for (size_t i = 0; i < replaced.size(); i += 12) replaced[i] = 60;
  const Perplexity with = perplexity(g.ctx, *g.model, g.ids, {.context = 12, .bos = 60});
  const Perplexity same = perplexity(g.ctx, *g.model, replaced, {.context = 12});
  EXPECT_EQ(with.ppl, same.ppl);
  EXPECT_NE(with.ppl, perplexity(g.ctx, *g.model, g.ids, {.context = 12}).ppl);
}

TEST(Perplexity, RefusesWhatItCannotMeasure) {
  GoldenModel g("gpt2", choose_isa());
  const auto refusal = [&](std::vector<int32_t> ids, int64_t context) -> std::string {
    try {
      perplexity(g.ctx, *g.model, ids, {.context = context});
    } catch (const Error& e) {
      return e.what();
    }
    return "accepted";
  };
  EXPECT_NE(refusal(g.ids, 33).find("takes 3 to 32"), std::string::npos);
  EXPECT_NE(refusal(g.ids, 2).find("takes 3 to 32"), std::string::npos);
  EXPECT_NE(refusal({1, 2, 3}, 4).find("the text has 3 tokens"), std::string::npos);
  EXPECT_NE(refusal({1, 2, 61, 3}, 4).find("token 61 is outside"), std::string::npos);
  EXPECT_EQ(refusal({1, 2, 60, 3}, 4), "accepted");
}

}  // namespace
}  // namespace espalier
