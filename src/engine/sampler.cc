#include "engine/sampler.h"

#include <algorithm>
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
    if (config_.top_k > 0 || config_.top_p < 1 || config_.min_p > 0) keep_prefix();
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

// Brings the first `count` candidates into their final order.
void Sampler::sort_prefix(size_t count) {
  const auto begin = candidates_.begin();
  const auto from = begin + std::ptrdiff_t(sorted_), to = begin + std::ptrdiff_t(count);
  if (to != candidates_.end()) std::nth_element(from, to, candidates_.end(), before);
  std::sort(from, to, before);
  sorted_ = count;
}

void Sampler::keep_prefix() {
  sorted_ = 0;
  if (config_.top_k > 0 && size_t(config_.top_k) < candidates_.size()) {
    sort_prefix(size_t(config_.top_k));
    candidates_.resize(size_t(config_.top_k));
  }
  float best = candidates_[0].logit;
  for (const Candidate& c : candidates_) best = std::max(best, c.logit);
  const auto weight = [best](const Candidate& c) { return std::exp(double(c.logit) - double(best)); };
  double total = 0;  // top-p's probabilities are those among what top-k left
  for (const Candidate& c : candidates_) total += weight(c);

  const double enough = config_.top_p < 1 ? config_.top_p * total : INFINITY;
  double sum = 0;
  size_t count = 0;
  for (; count < candidates_.size(); ++count) {
    if (count == sorted_) sort_prefix(std::min(candidates_.size(), std::max<size_t>(64, 4 * sorted_)));
    const double w = weight(candidates_[count]);
    if (count > 0 && (sum >= enough || w < config_.min_p)) break;
    sum += w;
  }
  candidates_.resize(count);
}

// Softmax at the temperature, in f64, in the order of the candidates.
void Sampler::weigh() {
  float best = candidates_[0].logit;
  for (const Candidate& c : candidates_) best = std::max(best, c.logit);
  double total = 0;
  for (Candidate& c : candidates_) {
    c.probability = std::exp((double(c.logit) - double(best)) / config_.temperature);
    total += c.probability;
  }
  for (Candidate& c : candidates_) c.probability /= total;
}

}  // namespace espalier
