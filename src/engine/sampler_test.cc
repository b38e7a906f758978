#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

#include "base/error.h"

namespace espalier {
namespace {

using Distribution = std::map<int32_t, double>;

Distribution of(const SamplerConfig& config, const std::vector<float>& logits,
                const std::vector<int32_t>& context = {}) {
  Sampler sampler(config, 0);
  Distribution result;
  for (const auto& c : sampler.distribution(logits, context)) result[c.id] = c.probability;
  return result;
}

// The same by the definitions, one filter after the other, each on a sorted list with its own softmax.
Distribution brute_force(const SamplerConfig& config, std::vector<float> logits, const std::vector<int32_t>& context) {
  const size_t window = config.repetition_window ? size_t(config.repetition_window) : context.size();
  const size_t first = context.size() > window ? context.size() - window : 0;
  for (const int32_t id : std::set<int32_t>(context.begin() + std::ptrdiff_t(first), context.end())) {
    float& x = logits[size_t(id)];
    x = x > 0 ? x / float(config.repetition_penalty) : x * float(config.repetition_penalty);
  }
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return logits[size_t(a)] > logits[size_t(b)]; });
  const auto softmax = [&](double temperature) {
    std::vector<double> p;
    double total = 0;
    for (const int32_t id : order) p.push_back(std::exp(double(logits[size_t(id)]) / temperature)), total += p.back();
    for (double& x : p) x /= total;
    return p;
  };
  if (config.top_k > 0) order.resize(std::min(order.size(), size_t(config.top_k)));
  const std::vector<double> p = softmax(1);
  size_t keep = 0;
  for (double sum = 0; keep < p.size() && (keep == 0 || config.top_p == 1 || sum < config.top_p); ++keep)
    sum += p[keep];
  order.resize(keep);
  for (keep = 1; keep < order.size() && p[keep] >= config.min_p * p[0]; ++keep) {
  }
  order.resize(keep);
  if (config.greedy()) return {{order[0], 1.0}};
  Distribution result;
  const std::vector<double> q = softmax(config.temperature);
  for (size_t i = 0; i < order.size(); ++i) result[order[i]] = q[i];
  return result;
}

// Sums of at most n exponentials and their quotient in f64, in another order than the oracle's: n + 4 roundings and the
// few units in the last place of exp, of arguments up to 40.
void expect_same(const Distribution& actual, const Distribution& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [id, p] : expected) {
    ASSERT_TRUE(actual.contains(id)) << id;
    EXPECT_NEAR(actual.at(id), p, p * (double(expected.size()) + 50) * 0x1p-52) << id;
  }
}

std::vector<float> random_logits(uint64_t seed, size_t n, float scale) {
  const Rng rng(seed, Purpose::kTest);
  std::vector<float> logits(n);
  for (size_t i = 0; i < n; ++i) logits[i] = scale * rng.normal(i);
  return logits;
}

SamplerConfig plain() { return {.temperature = 1, .top_p = 1}; }

TEST(Sampler, EveryFilterAloneAndAllTogetherEqualTheirDefinitions) {
  std::vector<SamplerConfig> cases = {plain()};
  for (const int64_t k : {1, 2, 7, 63, 64, 65, 299, 300, 1000}) cases.push_back(plain()), cases.back().top_k = k;
  for (const double p : {0.0, 0.1, 0.5, 0.9, 0.999}) cases.push_back(plain()), cases.back().top_p = p;
  for (const double p : {0.001, 0.05, 0.5, 1.0}) cases.push_back(plain()), cases.back().min_p = p;
  for (const double t : {0.0, 0.3, 1.7, 5.0}) cases.push_back(plain()), cases.back().temperature = t;
  for (const double r : {0.5, 1.3}) cases.push_back(plain()), cases.back().repetition_penalty = r;
  cases.push_back({.temperature = 0.7, .top_k = 40, .top_p = 0.8, .min_p = 0.02, .repetition_penalty = 1.2});
  cases.push_back({.temperature = 2, .top_k = 5, .top_p = 0.99, .min_p = 0.3, .repetition_penalty = 1.2,
                   .repetition_window = 0});
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(i);
    for (const size_t n : {1, 2, 17, 300}) {
      const std::vector<float> logits = random_logits(n, n, 2);
      std::vector<int32_t> context;
      for (uint64_t t = 0; t < 90; ++t) context.push_back(int32_t(Rng(5, Purpose::kTest).below(t, n)));
      expect_same(of(cases[i], logits, context), brute_force(cases[i], logits, context));
    }
  }
}

TEST(Sampler, TiesGoToTheLowestId) {
  const std::vector<float> logits = {1, 3, 3, 3, 2};
  SamplerConfig config = plain();
  config.temperature = 0;
  EXPECT_EQ(of(config, logits), (Distribution{{1, 1.0}}));
  config = plain();
  config.top_k = 2;
  EXPECT_EQ(of(config, logits), (Distribution{{1, 0.5}, {2, 0.5}}));
  config = plain();
  config.top_p = 0.5;  // each of the three has 0.29: two of them reach half
  EXPECT_EQ(of(config, logits), (Distribution{{1, 0.5}, {2, 0.5}}));
}

TEST(Sampler, FiltersJudgeTheModelsOwnDistribution) {
  // Top-p before temperature: p = 2/3, 2/9, 1/9; at temperature 10 all are nearly equal, yet two still suffice for 0.8.
  const std::vector<float> logits = {std::log(6.0f), std::log(2.0f), 0};
  SamplerConfig config = {.temperature = 10, .top_p = 0.8};
  EXPECT_EQ(of(config, logits).size(), 2u);
}

TEST(Sampler, PenaltyCountsATokenOnceAndForgetsBeyondTheWindow) {
  SamplerConfig config = plain();
  config.temperature = 0;
  config.repetition_penalty = 2;
  config.repetition_window = 3;
  const std::vector<float> logits = {4, 3, 1};
  EXPECT_EQ(of(config, logits, {}).begin()->first, 0);
  EXPECT_EQ(of(config, logits, {0, 2, 2}).begin()->first, 1);            // 4 / 2 < 3
  EXPECT_EQ(of(config, {5, 2.4f, 1}, {0, 0, 0}).begin()->first, 0);      // 5 / 2, not 5 / 8
  EXPECT_EQ(of(config, logits, {0, 2, 2, 2}).begin()->first, 0);         // out of the window
  EXPECT_EQ(of(config, {-1, -1.5f, -9}, {0, 2, 2}).begin()->first, 1);   // -1 * 2 < -1.5
}

TEST(Sampler, MaskedTokensAreNeverDrawn) {
  SamplerConfig config = plain();
  const std::vector<float> logits = {-INFINITY, 0, -INFINITY, 0, -INFINITY};
  Sampler sampler(config, 3);
  for (uint64_t i = 0; i < 1000; ++i) {
    const int32_t id = sampler.sample(logits, {}, i);
    EXPECT_TRUE(id == 1 || id == 3) << id;
  }
}

// Pearson's statistic with k - 1 degrees of freedom has mean k - 1 and variance 2 (k - 1); by Wilson and Hilferty
// (1931) its cube root is nearly normal, which gives the value that is exceeded once in a million such tests.
double critical_chi_square(double degrees) {
  constexpr double kOneInAMillion = 4.753;
  const double v = 2 / (9 * degrees);
  return degrees * std::pow(1 - v + kOneInAMillion * std::sqrt(v), 3);
}

double chi_square(const SamplerConfig& config, const std::vector<float>& logits, uint64_t request) {
  constexpr int kDraws = 100'000;
  Sampler sampler(config, request);
  std::map<int32_t, int> seen;
  for (uint64_t i = 0; i < kDraws; ++i) ++seen[sampler.sample(logits, {}, i)];
  double statistic = 0;
  int counted = 0;
  for (const auto& [id, p] : brute_force(config, logits, {})) {
    const double expected = p * kDraws, difference = seen[id] - expected;
    statistic += difference * difference / expected;
    counted += seen[id];
  }
  EXPECT_EQ(counted, kDraws) << "a token was drawn that the filters drop";
  return statistic;
}

TEST(Sampler, DrawsHaveTheDistribution) {
  const std::vector<float> logits = {0, 1, -1, 2, 0.5f, -2, 1.5f, 0.25f};
  EXPECT_LT(chi_square(plain(), logits, 0), critical_chi_square(7));
  EXPECT_LT(chi_square({.temperature = 2, .top_p = 1, .seed = 77}, logits, 1), critical_chi_square(7));
  EXPECT_LT(chi_square({.temperature = 0.7, .top_k = 4, .top_p = 1}, logits, 2), critical_chi_square(3));
  const SamplerConfig nucleus = {.temperature = 1, .top_p = 0.9};
  EXPECT_LT(chi_square(nucleus, logits, 3), critical_chi_square(double(brute_force(nucleus, logits, {}).size()) - 1));
}

TEST(Sampler, DrawsDependOnSeedRequestAndIndexAlone) {
  const std::vector<float> logits(1000, 0.0f);
  const auto draw = [&](int64_t seed, uint64_t request, uint64_t index) {
    return Sampler({.temperature = 1, .top_p = 1, .seed = seed}, request).sample(logits, {}, index);
  };
  Sampler sampler({.temperature = 1, .top_p = 1, .seed = 1}, 2);
  for (const uint64_t index : {9, 3, 3, 0}) EXPECT_EQ(sampler.sample(logits, {}, index), draw(1, 2, index));
  int same = 0;
  for (uint64_t i = 0; i < 100; ++i) {
    same += draw(1, 2, i) == draw(2, 2, i);
    same += draw(1, 2, i) == draw(1, 3, i);
    same += draw(1, 2, i) == draw(1, 2, i + 1);
  }
  // 300 comparisons agree by chance with probability 1/1000 each; more than 7 of them once in ten million tries.
  EXPECT_LE(same, 7);
}

TEST(Sampler, AFilterThatDropsNothingChangesNoDraw) {
  const std::vector<float> logits = random_logits(8, 200, 1);
  Sampler without({.temperature = 0.9, .top_p = 1}, 1), with({.temperature = 0.9, .top_k = 200, .top_p = 1}, 1);
  for (uint64_t i = 0; i < 200; ++i) EXPECT_EQ(without.sample(logits, {}, i), with.sample(logits, {}, i));
}

TEST(Sampler, RefusesWhatIsNoDistribution) {
  const auto message = [](const std::vector<float>& logits) {
    try {
      Sampler({}, 0).sample(logits, {}, 0);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::kBadData);
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_NE(message({0, NAN, 1}).find("token 1 is nan"), std::string::npos) << message({0, NAN, 1});
  EXPECT_NE(message({0, 1, INFINITY}).find("token 2 is inf"), std::string::npos);
  EXPECT_NE(message({-INFINITY, -INFINITY}).find("no token is left"), std::string::npos);
  EXPECT_THROW(Sampler({.temperature = -1}, 0), Error);
  EXPECT_THROW(Sampler({.top_p = NAN}, 0), Error);
  EXPECT_THROW(Sampler({.repetition_penalty = 0}, 0), Error);
}

}  // namespace
}  // namespace espalier
