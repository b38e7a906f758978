// BufferPool: memory of activations and their gradients, recycled. A training step asks for the same sizes in the same
// order every time, so after the first steps every request is served from what an earlier one gave back, and the step
// allocates nothing.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

namespace espalier {

class BufferPool {
 public:
  BufferPool() = default;
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  struct Buffer {
    void* data = nullptr;
    int64_t bytes = 0;  ///< what was allocated; at least what was asked for
  };

  /// 64-byte-aligned memory of at least `bytes`, contents undefined. Takes the smallest free buffer that wastes at most
  /// a quarter, else allocates (Error kNoSpace).
  Buffer acquire(int64_t bytes);
  void release(Buffer buffer);

  int64_t bytes_allocated() const { return bytes_allocated_; }
  /// Greatest sum of buffers in use at one time since construction.
  int64_t bytes_in_use_max() const { return bytes_in_use_max_; }
  /// Requests that had to allocate.
  int64_t misses() const { return misses_; }

 private:
  std::vector<std::shared_ptr<void>> owned_;
  std::vector<Buffer> free_;  // sorted by bytes
  int64_t bytes_allocated_ = 0, bytes_in_use_ = 0, bytes_in_use_max_ = 0, misses_ = 0;
};

}  // namespace espalier
