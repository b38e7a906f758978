#include "ops/embedding.h"

#include <vector>

namespace espalier {

namespace {

// The rows of a quantised table that are wanted, and their places in them.
ConstMat gather_rows(const QuantisedWeight& table, const TokenIds& at, Var& rows, std::vector<int32_t>& places) {
  const int64_t cols = table.shape()[1];
  for (int64_t i = 0; i < at.count; ++i) {
    table.read_row(at.ids[i], rows.value().row<float>(i));
    places.push_back(int32_t(i));
  }
  return sub_cols(ConstMat(rows.value()), 0, cols);
}

}  // namespace

Var embedding(Tape& tape, Param& tokens, Param* positions, const TokenIds& at, float scale) {
  Var x = tape.make(DType::kF32, at.count, tokens.shape()[1]), rows;
  std::vector<int32_t> places;
  if (tokens.quantised) rows = tape.make(DType::kF32, x.rows(), x.cols());
  const ConstMat table = tokens.quantised ? gather_rows(*tokens.quantised, at, rows, places) : tokens.exact();
  tape.kernels().embed_forward(tape.ctx(), {.tokens = table,
                                            .positions = positions ? positions->exact() : ConstMat{},
                                            .ids = tokens.quantised ? places.data() : at.ids,
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
