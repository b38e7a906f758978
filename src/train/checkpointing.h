// Saving without standing still. Weights change only in the optimizer's sweep, at the end of a step; so from one sweep
// to the next a background thread copies all tensors into a buffer, in the order in which the sweep will change them,
// while forward and backward run. The sweep waits, and helps, only for what is not copied yet. Then the same thread
// writes the buffer to disk (formats/checkpoint.h) while training goes on.
#pragma once
#include <atomic>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/context.h"
#include "base/json.h"
#include "formats/checkpoint.h"

namespace espalier {

/// Tensors that change together: a parameter's weight and moments.
using CheckpointGroup = std::vector<CheckpointTensor>;

struct CheckpointJob {
  int64_t step = 0;
  std::shared_ptr<const Json> state;
  int keep_last = 1;
  std::set<int64_t> keep;  ///< steps that stay whatever their age
};

class CheckpointSaver {
 public:
  /// Groups are in the order of the optimizer's sweep; their memory must outlive the saver. With `in_background` the
  /// buffer, as large as all tensors, is allocated now.
  CheckpointSaver(Context& ctx, std::string checkpoints, std::vector<CheckpointGroup> groups, bool in_background);
  /// Waits for the writer; an error of it is lost.
  ~CheckpointSaver();
  CheckpointSaver(const CheckpointSaver&) = delete;

  /// Begins a save of the tensors as they are now and returns. Where the save before is still being written, waits for
  /// it. Throws what that one met (kNoSpace, kIo).
  void begin(CheckpointJob job);
  /// To be called before group i changes.
  void before_update(size_t i);
  /// Saves and returns when it is on the disk, without the buffer.
  void save_now(CheckpointJob job);
  /// Waits for what is being written. Throws what it met.
  void finish();

  /// How long training stood still since the last call: in begin(), before_update() and save_now().
  double take_stall_ms();
  /// Saves that found the one before still being written.
  int64_t collisions() const { return collisions_; }
  int64_t buffer_bytes() const { return buffer_bytes_; }

 private:
  struct Piece {
    std::byte* to;
    const std::byte* from;
    size_t bytes;
    size_t group;
  };
  void cut_into_pieces();
  bool copy_next(size_t last_piece);
  void copy_until(size_t group);
  void work();
  void write(const CheckpointJob& job, std::span<const CheckpointTensor> tensors) const;
  void wait_idle_and_rethrow();

  Context& ctx_;
  std::string checkpoints_;
  std::vector<CheckpointGroup> groups_;
  std::vector<CheckpointTensor> live_, copied_;  // all tensors: where they are, where their copies are
  std::shared_ptr<void> buffer_;
  int64_t buffer_bytes_ = 0;
  double stall_ms_ = 0;
  int64_t collisions_ = 0;

  // Pieces are claimed in order by whoever comes; left_[g] counts those of group g that are not copied yet.
  std::vector<Piece> pieces_;
  std::vector<size_t> group_end_;
  std::atomic<size_t> next_piece_{0};
  std::vector<std::atomic<int>> left_;

  std::mutex mutex_;
  std::condition_variable changed_;
  CheckpointJob job_;
  bool busy_ = false, stop_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace espalier
