#include "engine/sampler.h"

#include <cmath>

#include "base/error.h"

namespace espalier {
namespace {

const SamplerConfig& checked(const SamplerConfig& config) {
  check_sampler_config(config);
  return config;
}

/// Where XTC's coins lie in a request's stream of random numbers: no text has so many tokens.
constexpr uint64_t kCoins = uint64_t{1} << 40;

/// 53 random bits in [0, 1): as fine as sums of probabilities.
double uniform(const Rng& rng, uint64_t index) { return double(rng.u64(index) >> 11) * 0x1p-53; }

}  // namespace

Sampler::Sampler(const SamplerConfig& config, uint64_t request, const Tokenizer* tokenizer)
    : config_(checked(config)), rng_(uint64_t(config.seed), Purpose::kSampling, request),
      biases_(parse_logit_bias(config.logit_bias)), penalties_(config), dry_(config, tokenizer),
      mu_(2 * config.mirostat_tau) {}

std::span<const float> Sampler::changed(std::span<const float> logits, std::span<const int32_t> context) {
  if (biases_.empty() && penalties_.neutral() && dry_.neutral()) return logits;
  changed_.assign(logits.begin(), logits.end());
  add_bias(changed_, biases_);
  if (!penalties_.neutral()) penalties_.apply(changed_, context);
  if (!dry_.neutral()) dry_.apply(changed_, context);
  return changed_;
}

// No filter but typical-p and XTC can drop the best token.
bool Sampler::takes_best_of_all() const {
  return config_.greedy() && (config_.mirostat != 0 || (config_.typical_p == 1 && config_.xtc_probability == 0));
}

std::span<const Candidate> Sampler::distribution(std::span<const float> logits, std::span<const int32_t> context,
                                                 uint64_t index) {
  scan_.scan(changed(logits, context));
  if (takes_best_of_all()) {
    candidates_.assign({scan_.best_id(), scan_.best(), 1});
  } else if (config_.mirostat != 0) {
    candidates_.gather(scan_, -INFINITY);
    candidates_.weigh(temperature());
    candidates_.keep_surprise(mu_);
  } else {
    filter(index);
    candidates_.weigh(temperature());
  }
  return candidates_.list();
}

// Most of what the filters drop is never gathered. What top-n-sigma and top-k drop is below a known logit; what top-p
// drops is so where it comes first: the tokens below best - t weigh n exp(-t) together at most.
void Sampler::filter(uint64_t index) {
  const std::span<const float> logits = scan_.logits();
  float floor = config_.top_n_sigma > 0 ? top_n_sigma_floor() : -INFINITY;
  if (config_.top_k > 0) floor = std::max(floor, scan_.floor_of_rank(config_.top_k));
  double total = 0;
  const double tail = 1 - config_.top_p;
  const bool first = config_.top_n_sigma == 0 && config_.top_k == 0 && config_.typical_p == 1;
  if (first && tail > 0.001) {  // the sum is good to a thousandth of the tail
    total = sum_exp(logits, scan_.best());
    floor = scan_.best() - float(std::log(2 * double(logits.size()) / (tail * total)));
  }
  candidates_.gather(scan_, std::min(floor, scan_.best()));
  if (config_.top_k > 0) candidates_.keep_top_k(config_.top_k);
  if (config_.typical_p < 1) candidates_.keep_typical(config_.typical_p);
  if (config_.top_p < 1) candidates_.keep_top_p(config_.top_p, total);
  if (config_.min_p > 0) candidates_.keep_min_p(config_.min_p);
  if (config_.xtc_probability > 0 && uniform(rng_, kCoins + index) < config_.xtc_probability)
    candidates_.drop_top_choices(config_.xtc_threshold);
}

// best - n sigma, sigma the standard deviation of the logits that are not masked (Tang et al. 2024, top-n-sigma).
float Sampler::top_n_sigma_floor() const {
  double sum = 0, squares = 0, count = 0;
  for (const float x : scan_.logits()) {
    if (x == -INFINITY) continue;
    const double below = double(x) - double(scan_.best());  // small numbers, so that the squares do not cancel
    sum += below;
    squares += below * below;
    ++count;
  }
  const double mean = sum / count, variance = std::max(0.0, squares / count - mean * mean);
  return float(double(scan_.best()) - config_.top_n_sigma * std::sqrt(variance));
}

// With dynatemp_range r: T from max(0, T - r) to T + r as (entropy relative to that of equal chances)^exponent goes
// from 0 to 1 (kalomaze 2023, dynamic temperature; as in llama.cpp).
double Sampler::temperature() {
  const double t = config_.temperature, range = config_.dynatemp_range;
  if (t == 0 || range == 0) return t;
  const double least = std::max(0.0, t - range);
  return least + (t + range - least) * std::pow(candidates_.relative_entropy(), config_.dynatemp_exponent);
}

// The last candidate catches what rounding leaves over.
const Candidate& Sampler::pick(uint64_t index) const {
  const double target = uniform(rng_, index);
  double sum = 0;
  const Candidate* last = &candidates_.list()[0];
  for (const Candidate& c : candidates_.list()) {
    if (c.probability == 0) continue;
    sum += c.probability;
    last = &c;
    if (target < sum) break;
  }
  return *last;
}

int32_t Sampler::sample(std::span<const float> logits, std::span<const int32_t> context, uint64_t index) {
  distribution(logits, context, index);
  const Candidate& drawn = pick(index);
  // Mirostat 2: mu -= eta (S - tau), S = -log2 p of the token among those it was drawn from.
  if (config_.mirostat != 0) mu_ -= config_.mirostat_eta * (-std::log2(drawn.probability) - config_.mirostat_tau);
  return drawn.id;
}

}  // namespace espalier
