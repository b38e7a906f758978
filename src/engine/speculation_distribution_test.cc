// What is sampled with guesses has exactly the model's distribution: chi-square over 100,000 draws.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "engine/generator.h"
#include "engine/model_drafter.h"
#include "models/golden_model.h"

namespace espalier {
namespace {

/// A tiny model's passes are too short to be shared among cores, less so when others work on them.
struct Alone {
  ThreadPool pool{1};
  Context ctx{pool, silent_log(), choose_isa(), {}};
};

constexpr int64_t kLength = 4, kTexts = 25000;  // tokens a text, texts: 100,000 draws
using Text = std::vector<int32_t>;

SamplerConfig sampler_of(double temperature) { return {.temperature = temperature, .top_k = 3, .top_p = 1}; }

GenerateRequest request_of(uint64_t id) {
  GenerateRequest request;
  request.prompt = {7, 3, 11, 5};
  request.max_tokens = kLength;
  request.sampler = sampler_of(1);
  request.id = id;
  request.ignore_eos = true;
  return request;
}

/// The probability of every text, from the logits of plain passes and the sampler's own arithmetic.
std::map<Text, double> exact(Context& ctx, Decoder& model, double temperature) {
  Generator generator(ctx, model, nullptr);
  std::map<Text, double> texts = {{{}, 1.0}};
  for (int64_t length = 0; length < kLength; ++length) {
    std::map<Text, double> longer;
    for (const auto& [text, probability] : texts) {
      GenerateRequest request = request_of(0);
      request.prompt.insert(request.prompt.end(), text.begin(), text.end());
      request.max_tokens = 1;
      std::vector<float> logits;
      request.on_logits = [&](std::span<const float> row) { logits.assign(row.begin(), row.end()); };
      generator.generate(request);
      Sampler sampler(sampler_of(temperature), 0);
      for (const Sampler::Candidate& c : sampler.distribution(logits, request.prompt)) {
        Text next = text;
        next.push_back(c.id);
        longer[next] = probability * double(c.probability);
      }
    }
    texts = std::move(longer);
  }
  return texts;
}

std::map<Text, int64_t> drawn(Context& ctx, Decoder& model, Drafter& drafter) {
  Generator generator(ctx, model, nullptr,
                      {.remember = 1, .speculation = {.drafter = &drafter, .most = 5, .adaptive = false}});
  std::map<Text, int64_t> counts;
  for (int64_t i = 0; i < kTexts; ++i) ++counts[generator.generate(request_of(uint64_t(i))).ids];
  EXPECT_GT(generator.speculation().counters().accepted, kTexts / 4);
  return counts;
}

struct ChiSquare {
  double statistic = 0;
  int64_t freedom = -1;
};

/// Texts that are expected fewer than five times share a cell.
ChiSquare chi_square(const std::map<Text, int64_t>& counts, const std::map<Text, double>& probabilities) {
  ChiSquare result;
  double rest_expected = 0, rest_count = double(kTexts);
  const auto add = [&](double count, double expected) {
    result.statistic += (count - expected) * (count - expected) / expected;
    ++result.freedom;
  };
  for (const auto& [text, probability] : probabilities) {
    const auto found = counts.find(text);
    const double count = found == counts.end() ? 0 : double(found->second), expected = probability * double(kTexts);
    if (expected < 5) {
      rest_expected += expected;
      continue;
    }
    rest_count -= count;
    add(count, expected);
  }
  if (rest_expected > 0) add(rest_count, rest_expected);
  return result;
}

/// The value that chance exceeds once in ten thousand (Wilson and Hilferty 1931).
double bound(int64_t freedom) {
  const double n = double(freedom), z = 3.719;
  return n * std::pow(1 - 2 / (9 * n) + z * std::sqrt(2 / (9 * n)), 3);
}

void expect_the_models_distribution(const ModelDrafterOptions& shape) {
  Alone alone;
  GoldenModel target("llama2", choose_isa()), draft("mistral", choose_isa());
  ModelDrafter drafter(alone.ctx, *draft.model, target.model->spec().vocab, shape);
  const std::map<Text, int64_t> counts = drawn(alone.ctx, *target.model, drafter);
  const ChiSquare right = chi_square(counts, exact(alone.ctx, *target.model, 1));
  EXPECT_LT(right.statistic, bound(right.freedom)) << right.freedom << " degrees of freedom";
  EXPECT_GT(right.freedom, 30);
  // The test can tell: a temperature a fifth higher is another distribution.
  const ChiSquare wrong = chi_square(counts, exact(alone.ctx, *target.model, 1.2));
  EXPECT_GT(wrong.statistic, bound(wrong.freedom));
}

TEST(SpeculationDistribution, AChainLeavesIt) {
  expect_the_models_distribution({.width = 1, .children = 1, .most_steps = 3});
}

TEST(SpeculationDistribution, ATreeLeavesIt) {
  expect_the_models_distribution({.width = 3, .children = 3, .most_steps = 2});
}

}  // namespace
}  // namespace espalier
