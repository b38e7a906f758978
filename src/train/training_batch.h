// One optimizer step's tokens as arrays that a Batch points into, and how a piece of the dataset becomes a row of them.
#pragma once
#include <cstdint>
#include <vector>

#include "formats/token_dataset.h"
#include "models/decoder.h"

namespace espalier {

struct BatchShape {
  int64_t sequences = 0;  ///< of a micro-batch
  int64_t context = 0;    ///< T
  int64_t micro_batches = 1;
  bool pack_documents = true;

  int64_t rows() const { return sequences * context; }  ///< of a micro-batch
  int64_t all_rows() const { return micro_batches * rows(); }
};

/// Arrays of a whole step, [micro_batches * sequences * T]. A target is the id that follows, or -1 where none is to be
/// learnt: a document's last token, whose successor belongs to another text.
class TrainingBatch {
 public:
  explicit TrainingBatch(const BatchShape& shape);

  const BatchShape& shape() const { return shape_; }
  /// Targets that are no -1, over all micro-batches: what the step's loss is a mean over.
  int64_t target_count() const { return target_count_; }
  Batch micro_batch(int64_t index) const;
  const int32_t* targets(int64_t micro_batch) const { return targets_.data() + micro_batch * shape_.rows(); }

  /// Row `sequence` (of all micro-batches) becomes tokens [begin, begin + T] of the dataset: T inputs and their
  /// successors. With pack_documents positions begin at 0, and attention anew, at each document start inside; a
  /// document that began before `begin` is continued at position 0.
  void fill(int64_t sequence, const TokenDataset& dataset, int64_t begin);
  /// To be called when all rows are filled.
  void count_targets();

  int64_t bytes() const;

 private:
  BatchShape shape_;
  std::vector<int32_t> ids_, targets_, positions_, first_key_;
  std::vector<int32_t> tokens_;  // scratch: T + 1
  std::vector<int64_t> starts_;  // scratch
  int64_t target_count_ = 0;
};

/// How many samples of T + 1 tokens (overlapping by one, so that every token is learnt once) a dataset has.
inline int64_t sample_count(const TokenDataset& dataset, int64_t context) {
  return (dataset.token_count() - 1) / context;
}

}  // namespace espalier
