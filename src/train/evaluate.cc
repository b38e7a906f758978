#include "train/evaluate.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace espalier {
namespace {

// A set smaller than a batch becomes a smaller batch, so that no sample counts twice.
BatchShape fitted(const TokenDataset& dataset, BatchShape shape) {
  const int64_t samples = sample_count(dataset, shape.context);
  if (samples < 1)
    throw error(Code::kMismatch,
                "evaluating on {}: {} tokens make no sample of {} and their successor; shorten "
                "data.context or prepare more text",
                dataset.shards()[0].path(), dataset.token_count(), shape.context);
  shape.micro_batches = 1;
  shape.sequences = std::min(shape.sequences, samples);
  return shape;
}

}  // namespace

Evaluator::Evaluator(const TokenDataset& dataset, BatchShape shape, int64_t batches)
    : dataset_(dataset),
      batch_(fitted(dataset, shape)),
      samples_(sample_count(dataset, shape.context)),
      batches_(std::min(batches, samples_ / batch_.shape().sequences)),
      losses_(size_t(batch_.shape().rows())) {}

double Evaluator::loss(Context& ctx, Decoder& model) {
  const BatchShape& shape = batch_.shape();
  const int64_t used = batches_ * shape.sequences;
  double sum = 0, targets = 0;
  Tape tape(ctx, pool_, model.dtype(), TapeMode::kEval);
  for (int64_t b = 0; b < batches_; ++b) {
    for (int64_t row = 0; row < shape.sequences; ++row)
      batch_.fill(row, dataset_, (b * shape.sequences + row) * samples_ / used * shape.context);
    batch_.count_targets();
    model.loss(tape, batch_.micro_batch(0), batch_.targets(0), 1, losses_.data());
    sum = std::accumulate(losses_.begin(), losses_.end(), sum);
    targets += double(batch_.target_count());
  }
  return sum / std::max(targets, 1.0);
}

}  // namespace espalier
