// Dropout (Srivastava et al. 2014) and the plain sum that follows it on the residual stream.
#pragma once
#include "base/rng.h"
#include "ops/tape.h"

namespace espalier {

/// y = x with each number kept with probability 1 - p and divided by it. The mask depends on rng alone, so the
/// backward pass and a recomputed block draw it again. p = 0 returns x.
Var dropout(Tape& tape, const Var& x, float p, const Rng& rng);

/// y = a + scale * b, f32 [N, C]. a's gradient is dy itself, b's a scaled copy of it.
Var add(Tape& tape, const Var& a, const Var& b, float scale = 1);

}  // namespace espalier
