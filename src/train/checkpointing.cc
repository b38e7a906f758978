#include "train/checkpointing.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/thread_pool.h"
#include "tensor/tensor.h"

namespace espalier {
namespace {

// Large enough to copy at full speed, small enough to share out.
constexpr size_t kPieceBytes = size_t{4} << 20;

size_t bytes_of(const CheckpointTensor& t) { return size_t(t.shape.size() * dtype_size(t.dtype)); }

}  // namespace

CheckpointSaver::CheckpointSaver(Context& ctx, std::string checkpoints, std::vector<CheckpointGroup> groups,
                                 bool in_background)
    : ctx_(ctx), checkpoints_(std::move(checkpoints)), groups_(std::move(groups)), left_(groups_.size()) {
  for (const CheckpointGroup& group : groups_) live_.insert(live_.end(), group.begin(), group.end());
  if (!in_background) return;
  cut_into_pieces();
  next_piece_ = pieces_.size();
  thread_ = start_thread([this] { work(); });
}

CheckpointSaver::~CheckpointSaver() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void CheckpointSaver::cut_into_pieces() {
  for (const CheckpointTensor& t : live_) buffer_bytes_ += int64_t(bytes_of(t) + 63) / 64 * 64;
  buffer_ = allocate_aligned(size_t(buffer_bytes_));
  std::byte* to = static_cast<std::byte*>(buffer_.get());
  for (size_t g = 0; g < groups_.size(); ++g) {
    for (const CheckpointTensor& t : groups_[g]) {
      copied_.push_back({t.name, t.dtype, t.shape, to});
      const size_t bytes = bytes_of(t);
      for (size_t at = 0; at < bytes; at += kPieceBytes)
        pieces_.push_back({to + at, static_cast<const std::byte*>(t.data) + at, std::min(kPieceBytes, bytes - at), g});
      to += (bytes + 63) / 64 * 64;
    }
    group_end_.push_back(pieces_.size());
  }
}

void CheckpointSaver::begin(CheckpointJob job) {
  const Stopwatch watch;
  ESP_CHECK(thread_.joinable(), "this saver has no background thread");
  {
    std::unique_lock lock(mutex_);
    collisions_ += busy_;
  }
  wait_idle_and_rethrow();
  for (std::atomic<int>& left : left_) left = 0;
  for (const Piece& piece : pieces_) ++left_[piece.group];
  {
    std::lock_guard lock(mutex_);
    job_ = std::move(job);
    busy_ = true;
    next_piece_ = 0;
  }
  changed_.notify_all();
  stall_ms_ += watch.ms();
}

void CheckpointSaver::before_update(size_t i) {
  if (!thread_.joinable() || left_[i].load(std::memory_order_acquire) == 0) return;
  const Stopwatch watch;
  const size_t end = group_end_[i];
  ctx_.pool.parallel_for(ctx_.pool.size(), [&](int64_t, int) {
    while (copy_next(end)) {
    }
  });
  copy_until(i);
  stall_ms_ += watch.ms();
}

/// Copies the next piece that nobody has claimed, if there is one before `end`.
bool CheckpointSaver::copy_next(size_t end) {
  size_t piece = next_piece_.load();
  do {
    if (piece >= end) return false;
  } while (!next_piece_.compare_exchange_weak(piece, piece + 1));
  const Piece& p = pieces_[piece];
  std::memcpy(p.to, p.from, p.bytes);
  if (left_[p.group].fetch_sub(1, std::memory_order_acq_rel) == 1) left_[p.group].notify_all();
  return true;
}

/// Waits until the claimed pieces of a group are copied.
void CheckpointSaver::copy_until(size_t group) {
  for (int left = left_[group].load(); left != 0; left = left_[group].load()) left_[group].wait(left);
}

void CheckpointSaver::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || busy_; });
    if (!busy_) return;
    lock.unlock();
    std::exception_ptr failure;
    try {
      while (copy_next(pieces_.size())) {
      }
      for (size_t g = 0; g < groups_.size(); ++g) copy_until(g);
      write(job_, copied_);
    } catch (...) {  // the edge of the thread: the next save or finish() throws it on
      failure = std::current_exception();
    }
    lock.lock();
    failure_ = failure;
    busy_ = false;
    changed_.notify_all();
  }
}

void CheckpointSaver::write(const CheckpointJob& job, std::span<const CheckpointTensor> tensors) const {
  write_checkpoint(checkpoints_, job.step, tensors, *job.state);
  prune_checkpoints(checkpoints_, job.keep_last, job.keep);
}

void CheckpointSaver::save_now(CheckpointJob job) {
  const Stopwatch watch;
  finish();
  write(job, live_);
  stall_ms_ += watch.ms();
}

void CheckpointSaver::finish() {
  if (thread_.joinable()) wait_idle_and_rethrow();
}

void CheckpointSaver::wait_idle_and_rethrow() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !busy_; });
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

double CheckpointSaver::take_stall_ms() { return std::exchange(stall_ms_, 0); }

}  // namespace espalier
