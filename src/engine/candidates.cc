#include "engine/candidates.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace espalier {
namespace {

bool before(const Candidate& a, const Candidate& b) { return a.logit != b.logit ? a.logit > b.logit : a.id < b.id; }

}  // namespace

void Candidates::gather(const LogitScan& scan, float floor) {
  list_.clear();
  scan.each_from(floor, [&](int32_t id, float logit) { list_.push_back({id, logit, 0}); });
}

float Candidates::best_logit() const {
  float best = -INFINITY;
  for (const Candidate& c : list_) best = std::max(best, c.logit);
  return best;
}

void Candidates::keep_best() {
  Candidate best = *std::min_element(list_.begin(), list_.end(), before);
  best.probability = 1;
  list_.assign(1, best);
}

// Keeps tokens in order of rising distance, and of rank among those alike, until their measures sum to `enough`.
// Buckets of distances tell in one pass where that happens; only the bucket in which it does is put in order.
template <class Distance, class Measure>
void Candidates::keep_until(double enough, Distance distance, Measure measure) {
  constexpr double kBuckets = 1024, kPerNat = 32;
  const auto bucket = [&](const Candidate& c) { return size_t(std::min(distance(c) * kPerNat, kBuckets - 1)); };
  const auto sooner = [&](const Candidate& a, const Candidate& b) {
    const double x = distance(a), y = distance(b);
    return x != y ? x < y : before(a, b);
  };
  std::array<double, size_t(kBuckets)> sums{};
  for (const Candidate& c : list_) sums[bucket(c)] += measure(c);
  size_t at = 0;
  double sum = 0;
  while (at + 1 < sums.size() && (sum + sums[at] < enough || sums[at] == 0)) sum += sums[at++];

  boundary_.clear();
  for (const Candidate& c : list_)
    if (bucket(c) == at) boundary_.push_back(c);
  if (boundary_.empty()) return;  // the measures of all together are not enough
  std::sort(boundary_.begin(), boundary_.end(), sooner);
  size_t last = 0;
  while (last + 1 < boundary_.size() && (sum += measure(boundary_[last])) < enough) ++last;
  const Candidate cut = boundary_[last];
  std::erase_if(list_, [&](const Candidate& c) { return sooner(cut, c); });
}

void Candidates::keep_top_k(int64_t k) {
  const double best = double(best_logit());
  keep_until(double(k), [best](const Candidate& c) { return best - double(c.logit); },
             [](const Candidate&) { return 1.0; });
}

void Candidates::keep_top_p(double p, double total) {
  const double best = double(best_logit());
  double listed = 0;
  for (Candidate& c : list_) {
    c.probability = std::exp(double(c.logit) - best);
    listed += c.probability;
  }
  keep_until(p * (total > 0 ? total : listed), [best](const Candidate& c) { return best - double(c.logit); },
             [](const Candidate& c) { return c.probability; });
}

void Candidates::keep_min_p(double p) {
  const double least = double(best_logit()) + std::log(p);
  std::erase_if(list_, [&](const Candidate& c) { return double(c.logit) < least; });
}

double Candidates::entropy() const {
  double sum = 0;
  for (const Candidate& c : list_)
    if (c.probability > 0) sum -= c.probability * std::log(c.probability);
  return sum;
}

double Candidates::relative_entropy() {
  if (list_.size() < 2) return 0;
  weigh(1);
  return std::clamp(entropy() / std::log(double(list_.size())), 0.0, 1.0);
}

void Candidates::keep_typical(double p) {
  weigh(1);
  const double expected = entropy();
  keep_until(p, [expected](const Candidate& c) { return std::abs(-std::log(c.probability) - expected); },
             [](const Candidate& c) { return c.probability; });
}

void Candidates::drop_top_choices(double threshold) {
  weigh(1);
  const Candidate* last = nullptr;
  for (const Candidate& c : list_)
    if (c.probability >= threshold && (!last || before(*last, c))) last = &c;
  if (!last) return;
  const Candidate kept = *last;
  std::erase_if(list_, [&](const Candidate& c) { return before(c, kept); });
}

void Candidates::keep_surprise(double mu) {
  const double least = std::exp2(-mu);
  const double most = std::max_element(list_.begin(), list_.end(), [](const Candidate& a, const Candidate& b) {
                        return a.probability < b.probability;
                      })->probability;
  if (most < least) return keep_best();
  std::erase_if(list_, [&](const Candidate& c) { return c.probability < least; });
  double total = 0;
  for (const Candidate& c : list_) total += c.probability;
  for (Candidate& c : list_) c.probability /= total;
}

void Candidates::weigh(double temperature) {
  if (temperature == 0) return keep_best();
  const double best = double(best_logit());
  double total = 0;
  for (Candidate& c : list_) {
    c.probability = std::exp((double(c.logit) - best) / temperature);
    total += c.probability;
  }
  for (Candidate& c : list_) c.probability /= total;
}

}  // namespace espalier
