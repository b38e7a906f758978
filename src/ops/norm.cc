#include "ops/norm.h"

namespace espalier {

Var norm(Tape& tape, const Var& x, Param& w, Param* b, const NormOptions& options) {
  Var y = tape.make(options.wide ? DType::kF32 : tape.dtype(), x.rows(), x.cols());
  Var stats = tape.make(DType::kF32, x.rows(), 2);
  tape.kernels().norm_forward(tape.ctx(), {.x = x.value(),
                                           .w = w.exact(),
                                           .b = b ? b->exact() : ConstMat{},
                                           .eps = options.eps,
                                           .weight_offset = options.weight_offset,
                                           .rms = options.rms,
                                           .y = y.value(),
                                           .stats = stats.value()});
  tape.record([&tape, x, y, stats, w = &w, b, options] {
    const bool accumulate = x.has_grad();
    tape.kernels().norm_backward(tape.ctx(), {.dy = y.grad(),
                                              .x = x.value(),
                                              .w = w->exact(),
                                              .stats = stats.value(),
                                              .weight_offset = options.weight_offset,
                                              .rms = options.rms,
                                              .accumulate = accumulate,
                                              .dx = x.grad_for_writing(DType::kF32),
                                              .dw = w->trained() ? w->grad.mat() : Mat{},
                                              .db = b && b->trained() ? b->grad.mat() : Mat{}});
  });
  return y;
}

}  // namespace espalier
