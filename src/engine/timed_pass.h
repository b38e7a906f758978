// Passes over made-up tokens with a cache of their own: what a pass costs on some cores.
#pragma once
#include "models/decoder.h"

namespace espalier {

class TimedPass {
 public:
  /// Both are borrowed. Passes score `most_scored` tokens at most.
  TimedPass(Context& ctx, Decoder& model, int64_t most_scored);

  /// Seconds of a pass over `rows` new tokens with the logits of the last `scored` of them.
  double run(int64_t rows, int64_t scored);
  /// Forgets all positions from `length` on.
  void truncate(int64_t length) { cache_.truncate(length); }

 private:
  Context& ctx_;
  Decoder& model_;
  BufferPool buffers_;
  KvCache cache_;
  Tensor logits_;
};

}  // namespace espalier
