#include "ops/head_loss.h"

#include <algorithm>
#include <vector>

namespace espalier {
namespace {

// A slice's logits are written once and read three times; about this many bytes keep dW's accumulation (V*C numbers
// read and written a slice) and the logits' own traffic in balance.
constexpr int64_t kSliceBytes = int64_t{96} << 20;

std::vector<PanelRun> first_rows(std::span<const PanelRun> runs, int64_t rows) {
  std::vector<PanelRun> first;
  for (PanelRun run : runs) {
    run.rows = std::min(run.rows, rows);
    rows -= run.rows;
    if (run.rows > 0) first.push_back(run);
  }
  return first;
}

// logits = x W^T of the first logits.cols rows of W.
void product(Tape& tape, ConstMat x, const Param& w, Mat logits) {
  if (w.quantised) {
    const std::vector<PanelRun> rows = first_rows(w.quantised->runs(), logits.cols);
    return tape.kernels().quant_gemm(tape.ctx(), {.x = x, .w = rows, .y = logits});
  }
  const ConstMat rows = sub_rows(w.compute(), 0, logits.cols);
  if (tape.mode() == TapeMode::kServe)
    tape.kernels().row_gemm(tape.ctx(), {.x = x, .w = rows, .y = logits});
  else
    tape.kernels().gemm(tape.ctx(), {.a = x, .b = rows, .b_transposed = true, .c = logits});
}

}  // namespace

int64_t head_slice_rows(int64_t vocab) {
  const int64_t rows = kSliceBytes / (vocab * 4) / 128 * 128;
  return std::clamp<int64_t>(rows, 128, 4096);
}

void head_loss(Tape& tape, const Var& x, Param& w, const HeadTargets& targets, float softcap) {
  Context& ctx = tape.ctx();
  const Kernels& k = tape.kernels();
  const int64_t n = x.rows(), vocab = w.shape()[0], step = std::min(n, head_slice_rows(vocab));
  const bool backward = tape.recording();
  Var logits = tape.make(DType::kF32, step, vocab);
  // The slope of a soft cap follows from the capped logits, so that they must stay.
  Var dlogits = backward && (x.dtype() != DType::kF32 || softcap > 0) ? tape.make(x.dtype(), step, vocab) : logits;
  for (int64_t begin = 0; begin < n; begin += step) {
    const int64_t rows = std::min(step, n - begin);
    const ConstMat xs = sub_rows<ConstMat>(x.value(), begin, rows);
    const Mat ls = sub_rows(logits.value(), 0, rows), ds = sub_rows(dlogits.value(), 0, rows);
    product(tape, xs, w, ls);
    if (softcap > 0) k.softcap(ctx, {ls, softcap});
    k.cross_entropy(ctx, {.logits = ls, .targets = targets.ids + begin, .scale = targets.scale,
                          .loss = targets.losses + begin, .dlogits = backward ? ds : Mat{}});
    if (!backward) continue;
    if (softcap > 0) k.softcap_backward(ctx, {.y = ls, .dy = ds, .dx = ds, .cap = softcap});
    k.gemm(ctx, {.a = ds, .b = w.compute(), .c = sub_rows(x.grad_for_writing(x.dtype()), begin, rows)});
    if (w.trained()) k.gemm(ctx, {.a = ds, .a_transposed = true, .b = xs, .c = w.grad.mat(), .accumulate = true});
  }
}

void head_logits(Tape& tape, const Var& x, const Param& w, Mat logits, float softcap) {
  product(tape, x.value(), w, logits);
  if (softcap > 0) tape.kernels().softcap(tape.ctx(), {logits, softcap});
}

}  // namespace espalier
