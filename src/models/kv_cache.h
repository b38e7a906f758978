// KvCache: the keys and values of one sequence, layer by layer, growing by doubling.
#pragma once
#include <span>
#include <vector>

#include "models/arch_spec.h"
#include "tensor/tensor.h"

namespace espalier {

class KvCache {
 public:
  /// `dtype` f32 or bf16.
  KvCache(const ArchSpec& spec, DType dtype = DType::kF32);

  int64_t length() const { return length_; }
  /// Room for `positions`; keeps what is there.
  void reserve(int64_t positions);
  /// Keys (values) of a layer, [capacity, K*D].
  Mat keys(int64_t layer) { return keys_[size_t(layer)].mat(); }
  Mat values(int64_t layer) { return values_[size_t(layer)].mat(); }
  /// Called once a forward pass has written `count` new positions in every layer.
  void advance(int64_t count) { length_ += count; }
  /// Keeps the first `kept` positions and behind them those of `rows`, which rise, in order: a path through a tree of
  /// tokens becomes a line. The length is then kept + rows.size().
  void gather(int64_t kept, std::span<const int32_t> rows);
  /// Forgets the positions from `length` on.
  void truncate(int64_t length);

 private:
  std::vector<Tensor> keys_, values_;
  int64_t length_ = 0, width_ = 0;
  DType dtype_;
};

}  // namespace espalier
