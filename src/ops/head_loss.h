// The language-model head and its loss in one: logits are made a slice of rows at a time, turned into their gradient in
// place, and used at once, so that the [N, V] matrix never exists whole.
#pragma once
#include "ops/param.h"
#include "ops/tape.h"

namespace espalier {

/// What is learnt from each row, and where its loss goes.
struct HeadTargets {
  const int32_t* ids = nullptr;  ///< [N], below 0 for none
  float scale = 1;               ///< of the gradients
  float* losses = nullptr;       ///< [N]
};

/// losses[i] = -log softmax(logits_i)[targets[i]], 0 where targets[i] < 0, with logits = x W^T, or with a soft cap
/// above 0 softcap * tanh(x W^T / softcap).  x [N, C] of the tape's dtype; W [V, C];
/// losses f32 [N]. While recording, the gradient of scale * sum(losses) is computed along the way: dW accumulates now,
/// dx waits for the backward pass. With gradient accumulation, scale is 1 / (targets of the whole step).
void head_loss(Tape& tape, const Var& x, Param& w, const HeadTargets& targets, float softcap = 0);

/// How many rows of logits exist at a time; for predictions of memory.
int64_t head_slice_rows(int64_t vocab);

/// logits f32 [N, V] = x W^T, capped where softcap is above 0.
void head_logits(Tape& tape, const Var& x, const Param& w, Mat logits, float softcap = 0);

}  // namespace espalier
