// What the training benchmarks share: a model of a given shape with everything that a step needs, on random tokens.
#pragma once
#include "bench/temporary_folder.h"
#include "train/data_loader.h"
#include "train/train_step.h"

namespace espalier {

struct TrainShape {
  const char* name;
  int64_t layers, width, vocab, context, batch;
  ArchSpec spec() const;  ///< GPT-2 with heads of 64
};

inline constexpr TrainShape kGpt2Small = {"train", 12, 768, 50257, 1024, 1};
inline constexpr TrainShape kDemoSize = {"train-small", 6, 384, 4096, 256, 8};

struct TrainRig {
  /// Tokens for `steps` steps.
  TrainRig(Context& ctx, const TrainShape& shape, DType dtype, int64_t steps, bool recompute = false);

  TemporaryFolder folder;
  TokenDataset dataset;
  DataLoader loader;
  Decoder model;
  Optimizer optimizer;
  Guard guard;
  TrainStep step;
};

}  // namespace espalier
