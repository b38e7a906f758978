#include "ops/dropout.h"

namespace espalier {

Var dropout(Tape& tape, const Var& x, float p, const Rng& rng) {
  if (p == 0 || tape.mode() != TapeMode::kTrain) return x;
  Var y = tape.make(x.dtype(), x.rows(), x.cols());
  tape.kernels().dropout(tape.ctx(), {x.value(), y.value(), p, rng});
  tape.record([&tape, x, y, p, rng] {
    tape.kernels().dropout(tape.ctx(), {y.grad(), x.first_grad(y.grad().dtype), p, rng});
  });
  return y;
}

Var add(Tape& tape, const Var& a, const Var& b, float scale) {
  Var y = tape.make(DType::kF32, a.rows(), a.cols());
  const auto add_scaled = [&tape, scale](ConstMat to, ConstMat x, Mat sum) {
    if (scale == 1) return tape.kernels().add(tape.ctx(), {to, x, sum});
    if (to.data != sum.data) tape.kernels().copy(tape.ctx(), {.src = to, .dst = sum});
    tape.kernels().copy(tape.ctx(), {.src = x, .dst = sum, .scale = scale, .accumulate = true});
  };
  add_scaled(a.value(), b.value(), y.value());
  tape.record([&tape, a, b, y, scale, add_scaled] {
    const Mat dy = y.grad();
    if (b.has_grad())
      add_scaled(b.grad(), dy, b.grad());
    else
      tape.kernels().copy(tape.ctx(), {.src = dy, .dst = b.grad_for_writing(dy.dtype), .scale = scale});
    if (!a.take_grad(y)) tape.kernels().add(tape.ctx(), {a.grad(), dy, a.grad()});
  });
  return y;
}

}  // namespace espalier
