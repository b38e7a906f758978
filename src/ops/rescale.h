// A constant factor, or another dtype, between two ops.
#pragma once
#include "ops/tape.h"

namespace espalier {

/// y = factor * x in `dtype`; x itself where that changes nothing.
Var rescale(Tape& tape, const Var& x, float factor, DType dtype);

}  // namespace espalier
