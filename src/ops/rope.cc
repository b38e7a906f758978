#include "ops/rope.h"

namespace espalier {
namespace {

RopeArgs arguments(Mat x, const RopeOptions& o, bool inverse) {
  return {.x = x, .heads = o.heads, .head_size = o.head_size, .rotary = o.rotary, .table = o.table,
          .position_ids = o.positions, .interleaved = o.interleaved, .inverse = inverse};
}

}  // namespace

void rope(Tape& tape, const Var& x, const RopeOptions& options) {
  tape.kernels().rope(tape.ctx(), arguments(x.value(), options, false));
  tape.record([&tape, x, options] { tape.kernels().rope(tape.ctx(), arguments(x.grad(), options, true)); });
}

}  // namespace espalier
