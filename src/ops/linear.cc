#include "ops/linear.h"

namespace espalier {
namespace {

ConstMat bias_of(const Param* b) { return b ? b->exact() : ConstMat{}; }

void product(Tape& tape, ConstMat x, const Param& w, const Param* b, Mat y) {
  if (w.quantised)
    tape.kernels().quant_gemm(tape.ctx(), {.x = x, .w = w.quantised->runs(), .y = y, .bias = bias_of(b)});
  else if (tape.mode() == TapeMode::kServe)
    tape.kernels().row_gemm(tape.ctx(), {.x = x, .w = w.compute(), .y = y, .bias = bias_of(b)});
  else
    tape.kernels().gemm(tape.ctx(), {.a = x, .b = w.compute(), .b_transposed = true, .c = y, .bias = bias_of(b)});
}

// dy in the dtype that the products with `like` take; `holder` keeps a converted copy alive.
ConstMat in_dtype_of(Tape& tape, ConstMat dy, DType like, Var& holder) {
  if (dy.dtype == like) return dy;
  holder = tape.make(like, dy.rows, dy.cols);
  tape.kernels().copy(tape.ctx(), {.src = dy, .dst = holder.value()});
  return holder.value();
}

// dx (+)= dy W;  dW += dy^T x;  db += sum dy
void linear_backward(Tape& tape, const Var& x, Param& w, Param* b, ConstMat dy_given) {
  Var holder;
  const ConstMat dy = in_dtype_of(tape, dy_given, x.dtype(), holder);
  Context& ctx = tape.ctx();
  const Kernels& k = tape.kernels();
  if (b && b->trained()) k.column_sum(ctx, {.x = dy_given, .sum = b->grad.mat()});
  if (w.trained())
    k.gemm(ctx, {.a = dy, .a_transposed = true, .b = x.value(), .c = w.grad.mat(), .accumulate = true});
  if (x.has_grad()) {  // a second consumer of x (the parallel block): add through a temporary
    Var extra = tape.make(x.dtype(), x.rows(), x.cols());
    k.gemm(ctx, {.a = dy, .b = w.compute(), .c = extra.value()});
    k.add(ctx, {.a = x.grad(), .b = extra.value(), .y = x.grad()});
  } else {
    k.gemm(ctx, {.a = dy, .b = w.compute(), .c = x.grad_for_writing(x.dtype())});
  }
}

}  // namespace

Var linear(Tape& tape, const Var& x, Param& w, Param* b) { return linear(tape, x, w, b, tape.dtype()); }

Var linear(Tape& tape, const Var& x, Param& w, Param* b, DType out) {
  Var y = tape.make(out, x.rows(), w.shape()[0]);
  product(tape, x.value(), w, b, y.value());
  tape.record([&tape, x, y, w = &w, b] { linear_backward(tape, x, *w, b, y.grad()); });
  return y;
}

Var linear_residual(Tape& tape, const Var& x, Param& w, Param* b, const Var& residual) {
  Var y = tape.make(DType::kF32, x.rows(), w.shape()[0]);
  Context& ctx = tape.ctx();
  if (tape.mode() == TapeMode::kServe || w.quantised) {
    product(tape, x.value(), w, b, y.value());
    tape.kernels().add(ctx, {.a = residual.value(), .b = y.value(), .y = y.value()});
  } else {
    tape.kernels().copy(ctx, {.src = residual.value(), .dst = y.value()});
    tape.kernels().gemm(ctx, {.a = x.value(), .b = w.compute(), .b_transposed = true, .c = y.value(),
                              .accumulate = true, .bias = bias_of(b)});
  }
  tape.record([&tape, x, y, residual, w = &w, b] {
    linear_backward(tape, x, *w, b, y.grad());
    if (!residual.take_grad(y))
      tape.kernels().add(tape.ctx(), {.a = residual.grad(), .b = y.grad(), .y = residual.grad()});
  });
  return y;
}

}  // namespace espalier
