#include "models/kv_cache.h"

#include <algorithm>
#include <cstring>

namespace espalier {

KvCache::KvCache(const ArchSpec& spec, DType dtype)
    : keys_(size_t(spec.layers)), values_(size_t(spec.layers)), width_(spec.kv_width()), dtype_(dtype) {
  reserve(64);
}

void KvCache::reserve(int64_t positions) {
  const int64_t have = keys_[0] ? keys_[0].shape()[0] : 0;
  if (positions <= have) return;
  const int64_t capacity = std::max(positions, 2 * have);
  for (std::vector<Tensor>* side : {&keys_, &values_})
    for (Tensor& tensor : *side) {
      Tensor larger(dtype_, {capacity, width_});
      if (length_ > 0) std::memcpy(larger.data(), tensor.data(), size_t(length_ * width_ * dtype_size(dtype_)));
      tensor = std::move(larger);
    }
}

void KvCache::gather(int64_t kept, std::span<const int32_t> rows) {
  const int64_t bytes = width_ * dtype_size(dtype_);
  for (std::vector<Tensor>* side : {&keys_, &values_})
    for (Tensor& tensor : *side) {
      auto* data = static_cast<std::byte*>(tensor.data());
      for (size_t i = 0; i < rows.size(); ++i) {
        const int64_t to = kept + int64_t(i), from = rows[i];
        ESP_CHECK(from >= to && from < length_, "moving row {} of {} to {}", from, length_, to);
        if (from > to) std::memcpy(data + to * bytes, data + from * bytes, size_t(bytes));
      }
    }
  length_ = kept + int64_t(rows.size());
}

void KvCache::truncate(int64_t length) {
  ESP_CHECK(length >= 0 && length <= length_, "truncating {} to {}", length_, length);
  length_ = length;
}

}  // namespace espalier
