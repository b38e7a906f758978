// Starting weights.
#pragma once
#include "models/decoder.h"

namespace espalier {

/// GPT-2's rule (Radford et al. 2019): weights N(0, std^2), the products that write to the residual stream N(0,
/// std^2 / (2 L)), norms 1, biases 0. Depends on the seed and the weights' names alone.
void initialise(Context& ctx, Decoder& model, uint64_t seed, double std = 0.02);

}  // namespace espalier
