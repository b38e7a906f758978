// The loader: a thread that fills the batches of coming steps while the present one is computed. Which samples a step
// gets depends on the seed and on how many samples came before, on nothing else: a resume gives back its one number.
#pragma once
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "train/data_order.h"
#include "train/training_batch.h"

namespace espalier {

struct LoaderOptions {
  BatchShape shape;
  uint64_t seed = 0;
  int64_t cursor = 0;       ///< samples that earlier steps consumed
  int rank = 0, ranks = 1;  ///< of the data group: its ranks share out each micro-batch's samples in turn
  int ahead = 2;            ///< steps prepared in advance
};

class DataLoader {
 public:
  /// `dataset` must outlive the loader. Throws kMismatch where it is shorter than one sample.
  DataLoader(const TokenDataset& dataset, const LoaderOptions& options);
  ~DataLoader();
  DataLoader(const DataLoader&) = delete;
  DataLoader& operator=(const DataLoader&) = delete;

  /// The next step's batch, valid until the next call. Waits where the thread is behind; rethrows what it met.
  /// Allocates nothing.
  const TrainingBatch& next();

  /// Samples consumed by all ranks up to and including the batch that next() returned last.
  int64_t cursor() const { return cursor_; }
  int64_t samples_per_epoch() const { return samples_; }
  double epoch() const { return double(cursor_) / double(samples_); }
  /// How long the last next() waited.
  double stall_ms() const { return stall_ms_; }
  int64_t bytes() const;

 private:
  void work();
  void fill(TrainingBatch& batch, int64_t cursor) const;
  int64_t samples_per_step() const { return options_.shape.micro_batches * options_.shape.sequences * options_.ranks; }

  const TokenDataset& dataset_;
  LoaderOptions options_;
  int64_t samples_;
  DataOrder order_;
  int64_t cursor_;
  double stall_ms_ = 0;

  // Slots are used in turn. filled_ and taken_ count batches since the start; slot i holds batch i, i + slots, ...
  std::vector<std::unique_ptr<TrainingBatch>> slots_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t filled_ = 0, taken_ = 0;
  bool stop_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace espalier
