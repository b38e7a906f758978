// KvCache: the keys and values of one sequence, layer by layer, growing by doubling.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "models/arch_spec.h"
#include "tensor/tensor.h"

namespace espalier {

/// How the numbers of a cache are held; q8 as kernels/q8_rows.h has them.
enum class CacheType { kF32, kBF16, kQ8 };
/// "f32", "bf16", "q8"; Error kUsage otherwise.
CacheType parse_cache_type(const std::string& name);

class KvCache {
 public:
  /// Throws Error kUsage where the model's heads cannot be held so: q8 wants a size that is a multiple of 32.
  KvCache(const ArchSpec& spec, CacheType type = CacheType::kF32);

  int64_t length() const { return length_; }
  /// Room for `positions`; keeps what is there.
  void reserve(int64_t positions);
  CacheType type() const { return type_; }
  /// Bytes that a position takes in all layers.
  int64_t position_bytes() const { return int64_t(keys_.size()) * 2 * row_bytes_; }
  /// Keys (values) of a layer, [capacity, K*D]; in q8 [capacity, bytes].
  Mat keys(int64_t layer) { return keys_[size_t(layer)].mat(); }
  Mat values(int64_t layer) { return values_[size_t(layer)].mat(); }
  /// Called once a forward pass has written `count` new positions in every layer.
  void advance(int64_t count) { length_ += count; }
  /// Keeps the first `kept` positions and behind them those of `rows`, which rise, in order: a path through a tree of
  /// tokens becomes a line. The length is then kept + rows.size().
  void gather(int64_t kept, std::span<const int32_t> rows);
  /// Becomes the first `length` positions of another cache of the model, of the same type.
  void copy(const KvCache& other, int64_t length);
  /// Of memory that is held.
  int64_t bytes() const { return position_bytes() * keys_[0].shape()[0]; }
  /// Forgets the positions from `length` on.
  void truncate(int64_t length);

 private:
  std::vector<Tensor> keys_, values_;
  int64_t length_ = 0;
  CacheType type_;
  DType dtype_;         // of the tensors
  int64_t row_bytes_;
};

}  // namespace espalier
