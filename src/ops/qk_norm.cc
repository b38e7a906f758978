#include "ops/qk_norm.h"

namespace espalier {
namespace {

/// The q or the k columns.
struct Part {
  Param* w;
  int64_t column, cols, heads;
};

void forward(Tape& tape, const Part& p, Mat qkv, Mat stats, const QkNormOptions& o) {
  const Mat x = sub_cols(qkv, p.column, p.cols);
  tape.kernels().norm_forward(tape.ctx(), {.x = x, .w = p.w->exact(), .eps = o.eps, .weight_offset = o.weight_offset,
                                           .rms = true, .y = x, .stats = stats, .heads = p.heads});
}

void backward(Tape& tape, const Part& p, ConstMat before, Mat grad, ConstMat stats, const QkNormOptions& o) {
  const Mat dx = sub_cols(grad, p.column, p.cols);
  tape.kernels().norm_backward(tape.ctx(), {.dy = dx,
                                            .x = sub_cols(before, p.column, p.cols),
                                            .w = p.w->exact(),
                                            .stats = stats,
                                            .weight_offset = o.weight_offset,
                                            .rms = true,
                                            .dx = dx,
                                            .dw = p.w->trained() ? p.w->grad.mat() : Mat{},
                                            .heads = p.heads});
}

}  // namespace

void qk_norm(Tape& tape, const Var& qkv, Param& w_q, Param& w_k, const QkNormOptions& o) {
  const int64_t q_cols = o.heads * o.head_size, k_cols = o.kv_heads * o.head_size;
  const Part q{&w_q, 0, q_cols, o.whole ? 1 : o.heads}, k{&w_k, q_cols, k_cols, o.whole ? 1 : o.kv_heads};
  if (!tape.recording()) {
    forward(tape, q, qkv.value(), {}, o);
    forward(tape, k, qkv.value(), {}, o);
    return;
  }
  Var before = tape.make(qkv.dtype(), qkv.rows(), q_cols + k_cols);
  Var stats = tape.make(DType::kF32, qkv.rows(), 2 * (q.heads + k.heads));
  tape.kernels().copy(tape.ctx(), {.src = sub_cols(qkv.value(), 0, q_cols + k_cols), .dst = before.value()});
  const auto stats_of = [stats, q, k](bool keys) {
    return sub_cols(stats.value(), keys ? 2 * q.heads : 0, 2 * (keys ? k.heads : q.heads));
  };
  forward(tape, q, qkv.value(), stats_of(false), o);
  forward(tape, k, qkv.value(), stats_of(true), o);
  tape.record([&tape, qkv, before, stats_of, q, k, o] {
    backward(tape, q, before.value(), qkv.grad(), stats_of(false), o);
    backward(tape, k, before.value(), qkv.grad(), stats_of(true), o);
  });
}

}  // namespace espalier
