#include "train/guard.h"

#include <algorithm>
#include <cmath>

namespace espalier {

Guard::Guard(int64_t skip_limit, double spike_z) : skip_limit_(skip_limit), spike_z_(spike_z), ring_(kWindow) {}

Verdict Guard::judge(double loss, double grad_norm) {
  const Verdict verdict = !std::isfinite(loss) || !std::isfinite(grad_norm) ? Verdict::kNotFinite
                          : spikes(loss)                                    ? Verdict::kSpike
                                                                            : Verdict::kGood;
  if (verdict == Verdict::kGood) {
    ring_[size_t(count_++ % kWindow)] = loss;
    in_row_ = 0;
  } else {
    ++skipped_;
    ++in_row_;
  }
  return verdict;
}

bool Guard::spikes(double loss) const {
  const int64_t n = std::min(count_, kWindow);
  if (spike_z_ <= 0 || n < kWindowMin) return false;
  double mean = 0, variance = 0;
  for (int64_t i = 0; i < n; ++i) mean += ring_[size_t(i)] / double(n);
  for (int64_t i = 0; i < n; ++i) variance += (ring_[size_t(i)] - mean) * (ring_[size_t(i)] - mean) / double(n);
  const double deviation = std::max(std::sqrt(variance), 0.01 * std::abs(mean));
  return loss > mean + spike_z_ * deviation;
}

Guard::State Guard::state() const {
  State state{{}, skipped_, in_row_};
  for (int64_t i = std::max<int64_t>(0, count_ - kWindow); i < count_; ++i)
    state.window.push_back(ring_[size_t(i % kWindow)]);
  return state;
}

void Guard::restore(const State& state) {
  count_ = 0;
  for (const double loss : state.window) ring_[size_t(count_++ % kWindow)] = loss;
  skipped_ = state.skipped;
  in_row_ = state.in_row;
}

}  // namespace espalier
