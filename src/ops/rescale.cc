#include "ops/rescale.h"

namespace espalier {

Var rescale(Tape& tape, const Var& x, float factor, DType dtype) {
  if (factor == 1 && x.dtype() == dtype) return x;
  Var y = tape.make(dtype, x.rows(), x.cols());
  tape.kernels().copy(tape.ctx(), {.src = x.value(), .dst = y.value(), .scale = factor});
  tape.record([&tape, x, y, factor] {
    const bool accumulate = x.has_grad();
    tape.kernels().copy(tape.ctx(), {.src = y.grad(), .dst = x.grad_for_writing(x.dtype()), .scale = factor,
                                     .accumulate = accumulate});
  });
  return y;
}

}  // namespace espalier
