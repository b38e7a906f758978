#include "train/training_batch.h"

#include <algorithm>

namespace espalier {

TrainingBatch::TrainingBatch(const BatchShape& shape) : shape_(shape) {
  for (auto* array : {&ids_, &targets_, &positions_, &first_key_}) array->resize(size_t(shape.all_rows()));
  tokens_.resize(size_t(shape.context + 1));
}

Batch TrainingBatch::micro_batch(int64_t index) const {
  const int64_t at = index * shape_.rows();
  return {.sequences = shape_.sequences,
          .rows = shape_.context,
          .ids = ids_.data() + at,
          .positions = positions_.data() + at,
          .first_key = first_key_.data() + at};
}

void TrainingBatch::fill(int64_t sequence, const TokenDataset& dataset, int64_t begin) {
  const int64_t t = shape_.context, at = sequence * t;
  dataset.read(begin, t + 1, tokens_.data());
  starts_.clear();
  if (shape_.pack_documents) dataset.document_starts_in(begin + 1, t, starts_);
  auto next_start = starts_.begin();
  int64_t start = 0;  // of the document, in this row
  for (int64_t i = 0; i < t; ++i) {
    if (next_start != starts_.end() && *next_start == begin + i) {
      start = i;
      ++next_start;
    }
    const bool last = next_start != starts_.end() && *next_start == begin + i + 1;
    const size_t row = size_t(at + i);
    ids_[row] = tokens_[size_t(i)];
    targets_[row] = last ? -1 : tokens_[size_t(i + 1)];
    positions_[row] = int32_t(i - start);
    first_key_[row] = int32_t(start);
  }
}

void TrainingBatch::count_targets() {
  target_count_ = std::count_if(targets_.begin(), targets_.end(), [](int32_t target) { return target >= 0; });
}

int64_t TrainingBatch::bytes() const { return 4 * int64_t(sizeof(int32_t)) * shape_.all_rows(); }

}  // namespace espalier
