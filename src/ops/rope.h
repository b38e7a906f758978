// Rotary position embedding of the query and key heads, in place.
#pragma once
#include "ops/tape.h"

namespace espalier {

struct RopeOptions {
  int64_t heads = 0;      ///< heads to turn, from the start of each row: query heads, then key heads
  int64_t head_size = 0;  ///< D
  int64_t rotary = 0;     ///< leading numbers of each head that turn
  ConstMat table;         ///< f32 [positions, rotary]: cos, then sin; must stay until the backward pass
  const int32_t* positions = nullptr;
  bool interleaved = false;
};

/// Turns the heads of x (q | k | v) by their positions; backward turns the gradient back. Changes x in place, which is
/// safe because the product that made x does not need its result to go backward.
void rope(Tape& tape, const Var& x, const RopeOptions& options);

}  // namespace espalier
