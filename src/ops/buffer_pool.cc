#include "ops/buffer_pool.h"

#include <algorithm>

#include "base/check.h"
#include "tensor/tensor.h"

namespace espalier {
namespace {

bool smaller(const BufferPool::Buffer& a, const BufferPool::Buffer& b) { return a.bytes < b.bytes; }

}  // namespace

BufferPool::Buffer BufferPool::acquire(int64_t bytes) {
  bytes = std::max<int64_t>(64, (bytes + 63) / 64 * 64);
  Buffer buffer{nullptr, bytes};
  const auto found = std::lower_bound(free_.begin(), free_.end(), buffer, smaller);
  if (found != free_.end() && found->bytes <= bytes + bytes / 4) {
    buffer = *found;
    free_.erase(found);
  } else {
    owned_.push_back(allocate_aligned(size_t(bytes)));
    buffer.data = owned_.back().get();
    free_.reserve(owned_.size());  // so that giving back never allocates
    bytes_allocated_ += bytes;
    ++misses_;
  }
  bytes_in_use_ += buffer.bytes;
  bytes_in_use_max_ = std::max(bytes_in_use_max_, bytes_in_use_);
  return buffer;
}

void BufferPool::release(Buffer buffer) {
  ESP_CHECK(buffer.data != nullptr, "released twice");
  bytes_in_use_ -= buffer.bytes;
  free_.insert(std::lower_bound(free_.begin(), free_.end(), buffer, smaller), buffer);
}

}  // namespace espalier
