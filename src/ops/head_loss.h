// The language-model head and its loss in one: logits are made a slice of rows at a time, turned into their gradient in
// place, and used at once, so that the [N, V] matrix never exists whole.
#pragma once
#include "ops/param.h"
#include "ops/tape.h"

namespace espalier {

/// losses[i] = -log softmax(x_i W^T)[targets[i]], 0 where targets[i] < 0.  x [N, C] of the tape's dtype; W [V, C];
/// losses f32 [N]. While recording, the gradient of scale * sum(losses) is computed along the way: dW accumulates now,
/// dx waits for the backward pass. With gradient accumulation, scale is 1 / (targets of the whole step).
void head_loss(Tape& tape, const Var& x, Param& w, const int32_t* targets, float scale, float* losses);

/// How many rows of logits exist at a time; for predictions of memory.
int64_t head_slice_rows(int64_t vocab);

/// logits f32 [N, V] = x W^T.
void head_logits(Tape& tape, const Var& x, const Param& w, Mat logits);

}  // namespace espalier
