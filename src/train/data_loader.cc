#include "train/data_loader.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/thread_pool.h"

namespace espalier {
namespace {

int64_t checked_sample_count(const TokenDataset& dataset, int64_t context) {
  const int64_t samples = sample_count(dataset, context);
  if (samples < 1)
    throw error(Code::kMismatch,
                "loading {}: {} tokens make no sample of {} and their successor; shorten data.context "
                "or prepare more text",
                dataset.shards()[0].path(), dataset.token_count(), context);
  return samples;
}

}  // namespace

DataLoader::DataLoader(const TokenDataset& dataset, const LoaderOptions& options)
    : dataset_(dataset),
      options_(options),
      samples_(checked_sample_count(dataset, options.shape.context)),
      order_(options.seed, samples_),
      cursor_(options.cursor) {
  // One slot more than prepared in advance: the one that the caller works on.
  for (int i = 0; i < options.ahead + 1; ++i) slots_.push_back(std::make_unique<TrainingBatch>(options.shape));
  thread_ = start_thread([this] { work(); });
}

DataLoader::~DataLoader() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

const TrainingBatch& DataLoader::next() {
  const Stopwatch watch;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return filled_ > taken_ || failure_; });
  if (filled_ == taken_) std::rethrow_exception(failure_);
  const TrainingBatch& batch = *slots_[size_t(taken_) % slots_.size()];
  ++taken_;
  lock.unlock();
  changed_.notify_all();
  cursor_ += samples_per_step();
  stall_ms_ = watch.ms();
  return batch;
}

void DataLoader::work() {
  const int64_t first = cursor_, slots = int64_t(slots_.size());
  try {
    for (int64_t i = 0;; ++i) {
      {
        std::unique_lock lock(mutex_);
        // The batch taken last is still in use: its slot is free once the next one is taken.
        changed_.wait(lock, [&] { return stop_ || i - taken_ < slots - 1; });
        if (stop_) return;
      }
      fill(*slots_[size_t(i % slots)], first + i * samples_per_step());
      std::lock_guard lock(mutex_);
      filled_ = i + 1;
      changed_.notify_all();
    }
  } catch (...) {  // the edge of the thread: next() throws it on
    std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
    changed_.notify_all();
  }
}

void DataLoader::fill(TrainingBatch& batch, int64_t cursor) const {
  const BatchShape& shape = options_.shape;
  for (int64_t micro = 0; micro < shape.micro_batches; ++micro)
    for (int64_t row = 0; row < shape.sequences; ++row) {
      const int64_t place = (micro * options_.ranks + options_.rank) * shape.sequences + row;
      batch.fill(micro * shape.sequences + row, dataset_, order_.sample_at(cursor + place) * shape.context);
    }
  batch.count_targets();
}

int64_t DataLoader::bytes() const { return int64_t(slots_.size()) * slots_[0]->bytes(); }

}  // namespace espalier
