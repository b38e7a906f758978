#include "train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace espalier {

double share_done(int64_t step, int64_t warmup_steps, int64_t total_steps) {
  if (step <= warmup_steps || total_steps <= warmup_steps) return step >= total_steps ? 1 : 0;
  return std::min(1.0, double(step - warmup_steps) / double(total_steps - warmup_steps));
}

double rate_factor(const OptimConfig& o, int64_t step, double done) {
  const double r = o.min_lr_ratio,
               rising = std::min(1.0, double(step + 1) / double(std::max<int64_t>(o.warmup_steps, 1)));
  double falling = 1;
  if (o.schedule == "cosine") {
    falling = r + (1 - r) * 0.5 * (1 + std::cos(std::numbers::pi * done));
  } else if (o.schedule == "linear") {
    falling = 1 - (1 - r) * done;
  } else if (o.schedule == "wsd" && o.decay_fraction > 0) {
    const double in_decay = std::max(0.0, 1 - (1 - done) / o.decay_fraction);
    falling = 1 - (1 - r) * std::sqrt(in_decay);
  }
  return rising * falling;
}

}  // namespace espalier
