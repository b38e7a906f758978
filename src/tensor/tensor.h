// Tensor: a shared handle to a 64-byte-aligned buffer with dtype and shape. No resizing, no hidden copies.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/view.h"

namespace espalier {

/// Up to 8 dimensions (safetensors of other makers go beyond our own 4).
class Shape {
 public:
  static constexpr int kMaxRank = 8;
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims);
  explicit Shape(const std::vector<int64_t>& dims);

  int rank() const { return rank_; }
  int64_t operator[](int i) const { return dims_[i]; }
  int64_t size() const;
  bool operator==(const Shape& other) const;
  /// "[768, 3072]"
  std::string text() const;

 private:
  int64_t dims_[kMaxRank] = {};
  int rank_ = 0;
};

/// 64-byte-aligned memory, from 4 MiB on in huge pages where the system gives them. Zeroed. Error kNoSpace when there
/// is none.
std::shared_ptr<void> allocate_aligned(size_t bytes);

class Tensor {
 public:
  Tensor() = default;
  /// Zero-filled.
  Tensor(DType dtype, const Shape& shape);
  /// Shares memory owned by `owner` (a mapped file, another tensor).
  Tensor(DType dtype, const Shape& shape, std::shared_ptr<void> owner, void* data);

  explicit operator bool() const { return data_ != nullptr || shape_.rank() > 0; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t size() const { return shape_.size(); }
  int64_t bytes() const { return size() * dtype_size(dtype_); }
  void* data() { return data_; }
  const void* data() const { return data_; }
  template <class T>
  T* as() {
    ESP_CHECK(DTypeOf<T>::value == dtype_, "tensor is {}", dtype_name(dtype_));
    return static_cast<T*>(data_);
  }
  template <class T>
  const T* as() const {
    return const_cast<Tensor*>(this)->as<T>();
  }

  /// As a matrix: all dimensions but the last are rows; a vector is one row.
  Mat mat();
  ConstMat mat() const { return const_cast<Tensor*>(this)->mat(); }
  /// A deep copy.
  Tensor clone() const;
  /// The same memory under another shape of the same size.
  Tensor reshaped(const Shape& shape) const;

 private:
  std::shared_ptr<void> owner_;
  void* data_ = nullptr;
  Shape shape_;
  DType dtype_ = DType::kF32;
};

}  // namespace espalier
