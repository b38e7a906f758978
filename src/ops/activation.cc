#include "ops/activation.h"

namespace espalier {

Var activation(Tape& tape, const Var& x, Activation kind, bool gated) {
  Var y = tape.make(x.dtype(), x.rows(), gated ? x.cols() / 2 : x.cols());
  tape.kernels().activation_forward(tape.ctx(), {kind, gated, x.value(), y.value()});
  tape.record([&tape, x, y, kind, gated] {
    tape.kernels().activation_backward(tape.ctx(),
                                       {kind, gated, x.value(), y.grad(), x.first_grad(x.dtype())});
  });
  return y;
}

}  // namespace espalier
