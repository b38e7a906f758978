// The validation loss: the mean over the targets of some batches that are the same each time, spread evenly over the
// validation shards, computed by the training forward without the tape.
#pragma once
#include <vector>

#include "formats/token_dataset.h"
#include "train/training_batch.h"

namespace espalier {

class Evaluator {
 public:
  /// At most `batches` batches of `shape` (micro_batches 1); fewer where the dataset is smaller. Throws kMismatch where
  /// it holds no sample.
  Evaluator(const TokenDataset& dataset, BatchShape shape, int64_t batches);

  /// Mean loss a target; dropout is off.
  double loss(Context& ctx, Decoder& model);
  int64_t tokens() const { return batches_ * batch_.shape().rows(); }

 private:
  const TokenDataset& dataset_;
  TrainingBatch batch_;
  int64_t samples_, batches_;
  std::vector<float> losses_;
  BufferPool pool_;
};

}  // namespace espalier
