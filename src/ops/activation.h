// The non-linearity of the feed-forward layer, plain or gated.
#pragma once
#include "ops/tape.h"

namespace espalier {

/// y = act(x) [N, F], or gated: x [N, 2F] = (gate | up), y = act(gate) * up (Shazeer 2020).
Var activation(Tape& tape, const Var& x, Activation kind, bool gated);

}  // namespace espalier
