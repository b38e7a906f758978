#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

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

// The same by the definitions, one step after the other, each on a sorted list with its own softmax. XTC's coin has
// fallen on "drop".
class Oracle {
 public:
  Oracle(const SamplerConfig& config, std::vector<float> logits, const std::vector<int32_t>& context)
      : c_(config), logits_(std::move(logits)) {
    penalise(context);
    order_.resize(logits_.size());
    std::iota(order_.begin(), order_.end(), 0);
    std::stable_sort(order_.begin(), order_.end(), [&](int32_t a, int32_t b) { return logit(a) > logit(b); });
  }

  Distribution distribution() {
    if (c_.top_n_sigma > 0) top_n_sigma();
    if (c_.top_k > 0) order_.resize(std::min(order_.size(), size_t(c_.top_k)));
    if (c_.typical_p < 1) typical();
    if (c_.top_p < 1) keep_until(c_.top_p);
    const std::vector<double> p = softmax(1);
    size_t keep = 1;
    while (keep < order_.size() && p[keep] >= c_.min_p * p[0]) ++keep;
    order_.resize(keep);
    if (c_.xtc_probability > 0) xtc();
    const double t = temperature();
    if (t == 0) return {{order_[0], 1.0}};
    Distribution result;
    const std::vector<double> q = softmax(t);
    for (size_t i = 0; i < order_.size(); ++i) result[order_[i]] = q[i];
    return result;
  }

 private:
  double logit(int32_t id) const { return double(logits_[size_t(id)]); }

  void penalise(const std::vector<int32_t>& context) {
    const size_t window = c_.repetition_window ? size_t(c_.repetition_window) : context.size();
    const size_t first = context.size() > window ? context.size() - window : 0;
    for (const int32_t id : std::set<int32_t>(context.begin() + std::ptrdiff_t(first), context.end())) {
      float& x = logits_[size_t(id)];
      x = x > 0 ? x / float(c_.repetition_penalty) : x * float(c_.repetition_penalty);
      const auto n = std::count(context.begin() + std::ptrdiff_t(first), context.end(), id);
      x -= float(n) * float(c_.frequency_penalty) + float(c_.presence_penalty);
    }
  }

  std::vector<double> softmax(double temperature) const {
    std::vector<double> p;
    double total = 0;
    for (const int32_t id : order_) p.push_back(std::exp(logit(id) / temperature)), total += p.back();
    for (double& x : p) x /= total;
    return p;
  }

  double entropy() const {
    double h = 0;
    for (const double p : softmax(1)) h -= p * std::log(p);
    return h;
  }

  void keep_until(double enough) {
    const std::vector<double> p = softmax(1);
    size_t keep = 0;
    for (double sum = 0; keep < p.size() && (keep == 0 || sum < enough); ++keep) sum += p[keep];
    order_.resize(keep);
  }

  void top_n_sigma() {
    double mean = 0, variance = 0;
    for (const int32_t id : order_) mean += logit(id) / double(order_.size());
    for (const int32_t id : order_) variance += std::pow(logit(id) - mean, 2) / double(order_.size());
    const double least = logit(order_[0]) - c_.top_n_sigma * std::sqrt(variance);
    std::erase_if(order_, [&](int32_t id) { return logit(id) < least; });
  }

  void typical() {
    const std::vector<double> p = softmax(1);
    const double h = entropy();
    std::vector<std::tuple<double, size_t, int32_t>> scored;
    for (size_t i = 0; i < p.size(); ++i) scored.emplace_back(std::abs(-std::log(p[i]) - h), i, order_[i]);
    std::sort(scored.begin(), scored.end());
    std::set<size_t> kept;
    double sum = 0;
    for (const auto& [score, rank, id] : scored) {
      kept.insert(rank);
      if ((sum += p[rank]) >= c_.typical_p) break;
    }
    std::vector<int32_t> order;
    for (const size_t rank : kept) order.push_back(order_[rank]);
    order_ = order;
  }

  void xtc() {
    const std::vector<double> p = softmax(1);
    size_t likely = 0;
    while (likely < p.size() && p[likely] >= c_.xtc_threshold) ++likely;
    if (likely > 1) order_.erase(order_.begin(), order_.begin() + std::ptrdiff_t(likely) - 1);
  }

  double temperature() const {
    if (c_.greedy() || c_.dynatemp_range == 0) return c_.temperature;
    const double low = std::max(0.0, c_.temperature - c_.dynatemp_range), high = c_.temperature + c_.dynatemp_range;
    if (order_.size() == 1) return low;
    return low + (high - low) * std::pow(entropy() / std::log(double(order_.size())), c_.dynatemp_exponent);
  }

  SamplerConfig c_;
  std::vector<float> logits_;
  std::vector<int32_t> order_;  // what is left, the likeliest first
};

Distribution brute_force(const SamplerConfig& config, std::vector<float> logits, const std::vector<int32_t>& context) {
  return Oracle(config, std::move(logits), context).distribution();
}

// Sums of at most n exponentials and their quotient in f64, in another order than the oracle's: n + 4 roundings and the
// few units in the last place of exp, of arguments up to 40 / T; a dynamic T has as much of an error itself.
void expect_same(const Distribution& actual, const Distribution& expected, double slack = 1) {
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [id, p] : expected) {
    ASSERT_TRUE(actual.contains(id)) << id;
    EXPECT_NEAR(actual.at(id), p, p * (double(expected.size()) + 50) * slack * 0x1p-52) << id;
  }
}

std::vector<float> random_logits(uint64_t seed, size_t n, float scale) {
  const Rng rng(seed, Purpose::kTest);
  std::vector<float> logits(n);
  for (size_t i = 0; i < n; ++i) logits[i] = scale * rng.normal(i);
  return logits;
}

SamplerConfig plain() { return {.temperature = 1, .top_p = 1}; }

std::vector<SamplerConfig> every_filter() {
  std::vector<SamplerConfig> cases = {plain()};
  const auto add = [&](auto member, auto value) { cases.push_back(plain()), cases.back().*member = value; };
  for (const int64_t k : {1, 2, 7, 63, 64, 65, 299, 300, 1000}) add(&SamplerConfig::top_k, k);
  for (const double p : {0.0, 0.1, 0.5, 0.9, 0.999, 0.9999}) add(&SamplerConfig::top_p, p);
  for (const double p : {0.001, 0.05, 0.5, 1.0}) add(&SamplerConfig::min_p, p);
  for (const double p : {0.0, 0.2, 0.5, 0.9, 0.9999}) add(&SamplerConfig::typical_p, p);
  for (const double n : {0.01, 0.5, 1.0, 3.0, 50.0}) add(&SamplerConfig::top_n_sigma, n);
  for (const double t : {0.0, 0.3, 1.7, 5.0}) add(&SamplerConfig::temperature, t);
  for (const double r : {0.5, 1.3}) add(&SamplerConfig::repetition_penalty, r);
  for (const double r : {-0.7, 0.4}) add(&SamplerConfig::frequency_penalty, r);
  for (const double r : {-0.7, 0.4}) add(&SamplerConfig::presence_penalty, r);
  for (const double t : {0.0, 0.01, 0.05, 0.4, 0.8})
    add(&SamplerConfig::xtc_probability, 1.0), cases.back().xtc_threshold = t;
  for (const double r : {0.2, 0.9, 3.0}) add(&SamplerConfig::dynatemp_range, r), cases.back().dynatemp_exponent = r;
  cases.push_back({.temperature = 0, .typical_p = 0.3, .top_p = 1, .xtc_probability = 1});
  cases.push_back({.temperature = 0.7, .top_k = 40, .top_p = 0.8, .min_p = 0.02, .repetition_penalty = 1.2});
  cases.push_back({.temperature = 2, .top_k = 5, .top_p = 0.99, .min_p = 0.3, .repetition_penalty = 1.2,
                   .repetition_window = 0});
  cases.push_back({.temperature = 1.2, .dynatemp_range = 0.5, .top_n_sigma = 2, .top_k = 50, .typical_p = 0.95,
                   .top_p = 0.9, .min_p = 0.01, .xtc_probability = 1, .xtc_threshold = 0.08,
                   .repetition_penalty = 1.1, .frequency_penalty = 0.1, .presence_penalty = 0.2,
                   .repetition_window = 30});
  return cases;
}

TEST(Sampler, EveryFilterAloneAndAllTogetherEqualTheirDefinitions) {
  const std::vector<SamplerConfig> cases = every_filter();
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(i);
    for (const size_t n : {1, 2, 17, 300}) {
      const std::vector<float> logits = random_logits(n, n, 2);
      std::vector<int32_t> context;
      for (uint64_t t = 0; t < 90; ++t) context.push_back(int32_t(Rng(5, Purpose::kTest).below(t, n)));
      // d ln p = (logit - best) / T * dT / T: with T from 0.1 on and spans to 20, 200 times the error of T.
      const double slack = cases[i].dynatemp_range > 0 ? 200 : 1;
      expect_same(of(cases[i], logits, context), brute_force(cases[i], logits, context), slack);
    }
  }
}

// Large vocabularies take the short cuts: 64 at a time, and sums of f32.
TEST(Sampler, FiltersOfALargeVocabularyEqualTheirDefinitions) {
  const std::vector<float> logits = random_logits(3, 20'000, 3);
  for (const SamplerConfig& config : std::vector<SamplerConfig>{
           {.temperature = 0.8}, {.temperature = 1, .top_k = 40, .top_p = 0.95}, {.temperature = 1, .top_p = 0.5},
           {.temperature = 1, .top_n_sigma = 1, .top_p = 0.99, .min_p = 0.05}, {.temperature = 0.5, .top_k = 313},
           {.temperature = 0.5, .top_k = 312, .top_p = 1}, {.temperature = 1, .typical_p = 0.5, .top_p = 0.9}})
    expect_same(of(config, logits), brute_force(config, logits, {}));
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

TEST(Sampler, BiasesAddAndBan) {
  SamplerConfig config = plain();
  config.logit_bias = {"3=-inf", "1=0.5", "900=5"};
  const Distribution biased = of(config, {1, 2, 3, 4});
  const Distribution expected = brute_force(plain(), {1, 2.5f, 3}, {});
  expect_same(biased, expected);
  config.temperature = 0;
  config.logit_bias = {"0=3.5"};
  EXPECT_EQ(of(config, {1, 2, 3, 4}), (Distribution{{0, 1.0}}));
  for (const std::string bad : {"3", "=1", "x=1", "-1=1", "3=", "3=nan", "3=inf", "3=1x", "99999999999=1", "3=1=1"}) {
    config.logit_bias = {bad};
    EXPECT_THROW(Sampler(config, 0), Error) << bad;
  }
  config.logit_bias = {"3=1", "3=2"};
  EXPECT_THROW(Sampler(config, 0), Error);
}

TEST(Sampler, XtcTossesACoinForEachToken) {
  SamplerConfig config = plain();
  config.xtc_probability = 0.3;
  config.xtc_threshold = 0.2;
  const std::vector<float> logits = {1, 1.2f, -1};
  Sampler sampler(config, 4);
  int dropped = 0;
  constexpr int kTosses = 10'000;
  for (uint64_t i = 0; i < kTosses; ++i) {
    const auto list = sampler.distribution(logits, {}, i);
    ASSERT_TRUE(list.size() == 3 || (list.size() == 2 && list[0].id == 0)) << i;
    dropped += list.size() == 2;
  }
  // A binomial count; beyond five standard deviations once in two million tries.
  EXPECT_NEAR(dropped, 0.3 * kTosses, 5 * std::sqrt(kTosses * 0.3 * 0.7));
}

// Basu et al. 2021, step by step: the bound starts at 2 tau; what is more surprising is dropped; the bound moves by
// what the token drawn missed tau by.
TEST(Sampler, MirostatFollowsItsRule) {
  const std::vector<float> logits = random_logits(12, 50, 2);
  const SamplerConfig config = {.temperature = 1.3, .top_k = 1, .top_p = 0, .mirostat = 2, .mirostat_tau = 2,
                                .mirostat_eta = 0.4};
  Sampler sampler(config, 0);
  const Distribution all = brute_force({.temperature = 1.3, .top_p = 1}, logits, {});
  double mu = 4;
  for (uint64_t i = 0; i < 200; ++i) {
    Distribution expected;
    double total = 0, most = 0;
    for (const auto& [id, p] : all) most = std::max(most, p);
    for (const auto& [id, p] : all)
      if (-std::log2(p) <= mu || (p == most && -std::log2(most) > mu)) expected[id] = p, total += p;
    for (auto& [id, p] : expected) p /= total;
    Distribution actual;
    for (const auto& c : sampler.distribution(logits, {}, i)) actual[c.id] = c.probability;
    expect_same(actual, expected);
    Sampler copy = sampler;
    const int32_t id = sampler.sample(logits, {}, i);
    EXPECT_EQ(copy.sample(logits, {}, i), id) << "a copy goes on alike";
    mu -= 0.4 * (-std::log2(expected.at(id)) - 2);
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
  const SamplerConfig many = {.temperature = 1.5, .dynatemp_range = 0.5, .top_n_sigma = 2, .typical_p = 0.9, .top_p = 1,
                              .min_p = 0.05, .xtc_probability = 1, .xtc_threshold = 0.3};
  EXPECT_LT(chi_square(many, logits, 4), critical_chi_square(double(brute_force(many, logits, {}).size()) - 1));
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

TEST(Sampler, AStepThatDoesNothingChangesNoBit) {
  const std::vector<float> logits = random_logits(8, 200, 1);
  const SamplerConfig base = {.temperature = 0.9, .top_p = 1};
  std::vector<SamplerConfig> neutral(9, base);
  neutral[0].top_k = 200;
  neutral[1].top_n_sigma = 1000;
  neutral[2].min_p = 1e-300;
  neutral[3].xtc_probability = 1, neutral[3].xtc_threshold = 0.9;
  neutral[4].dry_multiplier = 5, neutral[4].dry_sequence_breakers = {}, neutral[4].dry_allowed_length = 100;
  neutral[5].dynatemp_exponent = 3;
  neutral[6].logit_bias = {"7=0"};
  neutral[7].repetition_window = 3, neutral[7].mirostat_tau = 3, neutral[7].dry_base = 3;
  neutral[8].frequency_penalty = 1e-300;  // is 0 in f32
  Sampler expected(base, 1);
  for (size_t n = 0; n < neutral.size(); ++n) {
    Sampler actual(neutral[n], 1);
    for (uint64_t i = 0; i < 200; ++i)
      EXPECT_EQ(expected.sample(logits, std::vector<int32_t>{5, 6, 5}, i),
                actual.sample(logits, std::vector<int32_t>{5, 6, 5}, i)) << n;
  }
}

// A stricter setting keeps some of what a laxer one keeps.
TEST(Sampler, FiltersAreMonotone) {
  const std::vector<float> logits = random_logits(21, 400, 2);
  const auto shrinks = [&](auto member, std::vector<double> strict_to_lax) {
    Distribution last;
    for (const double value : strict_to_lax) {
      SamplerConfig config = plain();
      config.*member = value;
      const Distribution now = of(config, logits);
      for (const auto& [id, p] : last) EXPECT_TRUE(now.contains(id)) << value;
      EXPECT_GE(now.size(), last.size());
      last = now;
    }
  };
  shrinks(&SamplerConfig::top_p, {0, 0.1, 0.3, 0.5, 0.8, 0.9, 0.99, 0.9999, 1});
  shrinks(&SamplerConfig::typical_p, {0, 0.1, 0.3, 0.5, 0.8, 0.9, 0.99, 1});
  shrinks(&SamplerConfig::min_p, {1, 0.9, 0.5, 0.1, 0.01, 0.001, 0});
  shrinks(&SamplerConfig::top_n_sigma, {0.01, 0.1, 0.5, 1, 2, 3, 0});
}

TEST(Sampler, RefusesSettingsByName) {
  const auto refused = [](auto member, auto value) {
    SamplerConfig config;
    config.*member = value;
    try {
      Sampler sampler(config, 0);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::kUsage);
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  using C = SamplerConfig;
  const std::vector<std::pair<std::string, double C::*>> fields = {
      {"temperature", &C::temperature}, {"dynatemp_range", &C::dynatemp_range},
      {"dynatemp_exponent", &C::dynatemp_exponent}, {"top_n_sigma", &C::top_n_sigma}, {"typical_p", &C::typical_p},
      {"top_p", &C::top_p}, {"min_p", &C::min_p}, {"xtc_probability", &C::xtc_probability},
      {"xtc_threshold", &C::xtc_threshold}, {"mirostat_tau", &C::mirostat_tau}, {"mirostat_eta", &C::mirostat_eta},
      {"repetition_penalty", &C::repetition_penalty}, {"frequency_penalty", &C::frequency_penalty},
      {"presence_penalty", &C::presence_penalty}, {"dry_multiplier", &C::dry_multiplier}, {"dry_base", &C::dry_base}};
  for (const auto& [name, member] : fields)
    for (const double value : {double(NAN), -1000.0, double(INFINITY)})
      EXPECT_EQ(refused(member, value).find("sampling: " + name + " is "), 0u) << refused(member, value);
  EXPECT_EQ(refused(&C::top_k, int64_t{-1}), "sampling: top_k is -1; expected 0 to 2147483648");
  EXPECT_EQ(refused(&C::repetition_window, int64_t{-1}), "sampling: repetition_window is -1; expected 0 or more");
  EXPECT_NE(refused(&C::dry_range, int64_t{-1}).find("dry_range is -1"), std::string::npos);
  EXPECT_NE(refused(&C::dry_allowed_length, int64_t{0}).find("dry_allowed_length is 0"), std::string::npos);
  EXPECT_NE(refused(&C::mirostat, int64_t{1}).find("mirostat is 1, which is not offered"), std::string::npos);
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
