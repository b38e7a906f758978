#include "engine/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"
#include "base/error.h"

namespace espalier {
namespace {

bool before(const Sampler::Candidate& a, const Sampler::Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

void check(const char* name, double value, double min, double max) {
  if (!(value >= min && value <= max))
    throw error(Code::kUsage, "sampling: {} is {}; expected {} to {}", name, value, min, max);
}

}  // namespace

Sampler::Sampler(const SamplerConfig& config, uint64_t request)
    : config_(config), rng_(uint64_t(config.seed), Purpose::kSampling, request) {
  check("temperature", config.temperature, 0, 100);
  check("top_p", config.top_p, 0, 1);
  check("min_p", config.min_p, 0, 1);
  check("repetition_penalty", config.repetition_penalty, 0.01, 100);
  check("top_k", double(config.top_k), 0, 0x1p31);
  check("repetition_window", double(config.repetition_window), 0, 0x1p63);
}

std::span<const Sampler::Candidate> Sampler::distribution(std::span<const float> logits,
                                                          std::span<const int32_t> context) {
  gather(logits, context);
  if (config_.greedy()) {
    keep_best();
  } else {
    if (config_.top_k > 0) keep_top_k();
    if (config_.top_p < 1) keep_top_p();
    if (config_.min_p > 0) keep_min_p();
    weigh();
  }
  return candidates_;
}

int32_t Sampler::sample(std::span<const float> logits, std::span<const int32_t> context, uint64_t index) {
  const auto candidates = distribution(logits, context);
  // 53 random bits: as fine as the sums below. The last candidate catches what rounding leaves over.
  const double target = double(rng_.u64(index) >> 11) * 0x1p-53;
  double sum = 0;
  int32_t last = candidates[0].id;
  for (const Candidate& c : candidates) {
    if (c.probability == 0) continue;
    sum += c.probability;
    last = c.id;
    if (target < sum) break;
  }
  return last;
}

void Sampler::gather(std::span<const float> logits, std::span<const int32_t> context) {
  ESP_CHECK(!logits.empty(), "no logits");
  candidates_.resize(logits.size());
  float best = -INFINITY;
  bool sound = true;
  for (size_t i = 0; i < logits.size(); ++i) {
    candidates_[i] = {int32_t(i), logits[i], 0};
    sound &= logits[i] < INFINITY;  // false for NaN too
    best = std::max(best, logits[i]);
  }
  if (!sound || best == -INFINITY) {
    const auto bad = std::find_if(logits.begin(), logits.end(), [](float x) { return !(x < INFINITY); });
    if (bad == logits.end())
      throw error(Code::kBadData, "sampling: all {} logits are -infinity; no token is left to choose", logits.size());
    throw error(Code::kBadData, "sampling: the logit of token {} is {}; the model's weights or activations overflowed",
                bad - logits.begin(), *bad);
  }
  if (config_.repetition_penalty != 1) penalise(context);
}

void Sampler::penalise(std::span<const int32_t> context) {
  const size_t window = size_t(config_.repetition_window);
  if (window > 0 && context.size() > window) context = context.last(window);
  const float penalty = float(config_.repetition_penalty);
  for (const int32_t id : context) {
    if (id < 0 || size_t(id) >= candidates_.size()) continue;
    Candidate& c = candidates_[size_t(id)];
    if (c.probability != 0) continue;  // a mark: an id is penalised once, however often it was said
    c.probability = 1;
    c.logit = c.logit > 0 ? c.logit / penalty : c.logit * penalty;
  }
}

void Sampler::keep_best() {
  Candidate best = *std::min_element(candidates_.begin(), candidates_.end(), before);
  best.probability = 1;
  candidates_.assign(1, best);
}

float Sampler::best_logit() const {
  float best = -INFINITY;
  for (const Candidate& c : candidates_) best = std::max(best, c.logit);
  return best;
}

// Keeps tokens in order of rank until their measures sum to `enough`. Buckets of falling logits tell in one pass where
// that happens; only the bucket in which it does is put in order.
template <class Measure>
void Sampler::keep_until(double enough, Measure measure) {
  constexpr float kBuckets = 1024, kPerNat = 32;
  const float best = best_logit();
  const auto bucket = [best](const Candidate& c) { return size_t(std::min((best - c.logit) * kPerNat, kBuckets - 1)); };
  std::array<double, size_t(kBuckets)> sums{};
  for (const Candidate& c : candidates_) sums[bucket(c)] += measure(c);
  size_t at = 0;
  double sum = 0;
  while (at + 1 < sums.size() && sum + sums[at] < enough) sum += sums[at++];

  boundary_.clear();
  for (const Candidate& c : candidates_)
    if (bucket(c) == at) boundary_.push_back(c);
  if (boundary_.empty()) return;  // the measures of all together are not enough
  std::sort(boundary_.begin(), boundary_.end(), before);
  size_t last = 0;
  while (last + 1 < boundary_.size() && (sum += measure(boundary_[last])) < enough) ++last;
  const Candidate cut = boundary_[last];
  std::erase_if(candidates_, [&](const Candidate& c) { return before(cut, c); });
}

void Sampler::keep_top_k() {
  keep_until(double(config_.top_k), [](const Candidate&) { return 1.0; });
}

// Probabilities are those among what top-k left.
void Sampler::keep_top_p() {
  const float best = best_logit();
  double total = 0;
  for (Candidate& c : candidates_) {
    c.probability = std::exp(double(c.logit) - double(best));
    total += c.probability;
  }
  keep_until(config_.top_p * total, [](const Candidate& c) { return c.probability; });
}

void Sampler::keep_min_p() {
  const double least = double(best_logit()) + std::log(config_.min_p);
  std::erase_if(candidates_, [&](const Candidate& c) { return double(c.logit) < least; });
}

// Softmax at the temperature, in f64, in the order of the candidates.
void Sampler::weigh() {
  const float best = best_logit();
  double total = 0;
  for (Candidate& c : candidates_) {
    c.probability = std::exp((double(c.logit) - double(best)) / config_.temperature);
    total += c.probability;
  }
  for (Candidate& c : candidates_) c.probability /= total;
}

}  // namespace espalier
