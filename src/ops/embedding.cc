#include "ops/embedding.h"

namespace espalier {

Var embedding(Tape& tape, Param& tokens, Param* positions, const TokenIds& at, float scale) {
  Var x = tape.make(DType::kF32, at.count, tokens.shape()[1]);
  tape.kernels().embed_forward(tape.ctx(), {.tokens = tokens.exact(),
                                            .positions = positions ? positions->exact() : ConstMat{},
                                            .ids = at.ids,
                                            .position_ids = at.positions,
                                            .scale = scale,
                                            .out = x.value()});
  tape.record([&tape, x, tokens = &tokens, positions, at, scale] {
    if (!tokens->trained()) return;
    tape.kernels().embed_backward(
        tape.ctx(), {.dout = x.grad(),
                     .ids = at.ids,
                     .position_ids = at.positions,
                     .scale = scale,
                     .dtokens = tokens->grad.mat(),
                     .dpositions = positions && positions->trained() ? positions->grad.mat() : Mat{}});
  });
  return x;
}

}  // namespace espalier
