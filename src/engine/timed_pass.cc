#include "engine/timed_pass.h"

#include <vector>

#include "base/clock.h"

namespace espalier {

TimedPass::TimedPass(Context& ctx, Decoder& model, int64_t most_scored)
    : ctx_(ctx), model_(model), cache_(model.spec()), logits_(DType::kF32, {most_scored, model.spec().vocab}) {}

double TimedPass::run(int64_t rows, int64_t scored) {
  const int64_t begin = cache_.length();
  cache_.reserve(begin + rows);
  std::vector<int32_t> ids, positions;
  for (int64_t i = 0; i < rows; ++i) {
    ids.push_back(int32_t((begin + i) * 7919 % model_.spec().vocab));
    positions.push_back(int32_t(begin + i));
  }
  const CacheSegment segment{&cache_, 0, rows};
  const Stopwatch watch;
  Tape tape(ctx_, buffers_, DType::kF32, TapeMode::kServe);
  const Var hidden = model_.hidden(tape, {1, rows, ids.data(), positions.data(), nullptr, {&segment, 1}});
  const Var last = tape.make(scored, hidden.cols());
  kernels(ctx_).copy(ctx_, {.src = sub_rows(hidden.value(), rows - scored, scored), .dst = last.value()});
  model_.logits(tape, last, sub_rows(logits_.mat(), 0, scored));
  const double seconds = watch.seconds();
  cache_.advance(rows);
  return seconds;
}

}  // namespace espalier
