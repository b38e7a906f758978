#include "models/kv_cache.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "kernels/q8_rows.h"

namespace espalier {

namespace {

DType element_type(CacheType type) {
  return type == CacheType::kF32 ? DType::kF32 : type == CacheType::kBF16 ? DType::kBF16 : DType::kU8;
}

}  // namespace

CacheType parse_cache_type(const std::string& name) {
  if (name == "f32") return CacheType::kF32;
  if (name == "bf16") return CacheType::kBF16;
  if (name == "q8") return CacheType::kQ8;
  throw error(Code::kUsage, "a cache of '{}': expected f32, bf16 or q8", name);
}

KvCache::KvCache(const ArchSpec& spec, CacheType type)
    : keys_(size_t(spec.layers)), values_(size_t(spec.layers)), type_(type), dtype_(element_type(type)),
      row_bytes_(type == CacheType::kQ8 ? q8_row_bytes(spec.kv_width()) : spec.kv_width() * dtype_size(dtype_)) {
  if (type == CacheType::kQ8 && spec.head_size % kQ8Block != 0)
    throw error(Code::kUsage, "a cache in q8 wants heads whose size is a multiple of {}, and this model's have {}; use "
                "--cache-dtype bf16", kQ8Block, spec.head_size);
  reserve(64);
}

void KvCache::reserve(int64_t positions) {
  const int64_t have = keys_[0] ? keys_[0].shape()[0] : 0;
  if (positions <= have) return;
  const int64_t capacity = std::max(positions, 2 * have);
  for (std::vector<Tensor>* side : {&keys_, &values_})
    for (Tensor& tensor : *side) {
      Tensor larger(dtype_, {capacity, row_bytes_ / dtype_size(dtype_)});
      if (length_ > 0) std::memcpy(larger.data(), tensor.data(), size_t(length_ * row_bytes_));
      tensor = std::move(larger);
    }
}

void KvCache::gather(int64_t kept, std::span<const int32_t> rows) {
  for (std::vector<Tensor>* side : {&keys_, &values_})
    for (Tensor& tensor : *side) {
      auto* data = static_cast<std::byte*>(tensor.data());
      for (size_t i = 0; i < rows.size(); ++i) {
        const int64_t to = kept + int64_t(i), from = rows[i];
        ESP_CHECK(from >= to && from < length_, "moving row {} of {} to {}", from, length_, to);
        if (from > to) std::memcpy(data + to * row_bytes_, data + from * row_bytes_, size_t(row_bytes_));
      }
    }
  length_ = kept + int64_t(rows.size());
}

void KvCache::copy(const KvCache& other, int64_t length) {
  ESP_CHECK(type_ == other.type_ && row_bytes_ == other.row_bytes_ && keys_.size() == other.keys_.size() &&
            length <= other.length_, "copying {} of {} positions of another cache", length, other.length_);
  truncate(0);
  reserve(length);
  for (size_t layer = 0; layer < keys_.size(); ++layer) {
    std::memcpy(keys_[layer].data(), other.keys_[layer].data(), size_t(length * row_bytes_));
    std::memcpy(values_[layer].data(), other.values_[layer].data(), size_t(length * row_bytes_));
  }
  length_ = length;
}

void KvCache::truncate(int64_t length) {
  ESP_CHECK(length >= 0 && length <= length_, "truncating {} to {}", length_, length);
  length_ = length;
}

}  // namespace espalier
