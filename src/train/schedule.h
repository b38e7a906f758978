// The learning rate's way through a run: a warm-up counted in steps, then a fall along the share of the run that is
// done (counted in steps, or in time where time ends the run).
#pragma once
#include "train/train_config.h"

namespace espalier {

/// The share of the run after the warm-up that lies before `step` (counted from 0): 0 at the warm-up's end, 1 at
/// `total` steps.
double share_done(int64_t step, int64_t warmup_steps, int64_t total_steps);

/// What the peak rate is multiplied by in `step` (from 0), in [min_lr_ratio, 1] after the warm-up. With r =
/// min_lr_ratio and d the share done:
///   warm-up   (step + 1) / warmup_steps, the rest's factor on top
///   cosine    r + (1 - r) (1 + cos(pi d)) / 2               (Loshchilov, Hutter 2017)
///   linear    1 - (1 - r) d
///   wsd       1, then over the last decay_fraction f of the run 1 - (1 - r) sqrt(1 - (1 - d) / f)
///             (Haegele et al. 2024, "1-sqrt")
///   constant  1
double rate_factor(const OptimConfig& optim, int64_t step, double share_done);

}  // namespace espalier
