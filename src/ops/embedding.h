// Token and position embeddings: the start of the residual stream.
#pragma once
#include "ops/param.h"
#include "ops/tape.h"

namespace espalier {

/// The rows to look up; the memory must stay until the backward pass. That ids are in range is the caller's duty.
struct TokenIds {
  const int32_t* ids = nullptr;
  const int32_t* positions = nullptr;
  int64_t count = 0;
};

/// x[i] = scale * tokens[ids[i]] + positions[position_ids[i]].  tokens [V, C], positions [P, C] or null; x f32 [n, C].
Var embedding(Tape& tape, Param& tokens, Param* positions, const TokenIds& at, float scale = 1);

}  // namespace espalier
