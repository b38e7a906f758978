// Views: borrowed memory with a shape. View<T, Rank> has its element type at compile time (loops); Mat carries it at
// run time (the kernel table), so that a bf16 or a quantised matrix goes through the same door.
#pragma once
#include <array>
#include <cstdint>
#include <type_traits>

#include "base/check.h"
#include "tensor/dtype.h"

namespace espalier {

/// Row-major; the last dimension is contiguous. Trivially copyable, never owns.
template <class T, int Rank>
struct View {
  T* data = nullptr;
  std::array<int64_t, Rank> dims{};
  std::array<int64_t, Rank> strides{};  ///< in elements; the last is 1

  View() = default;
  View(T* p, std::array<int64_t, Rank> d) : data(p), dims(d) {
    int64_t stride = 1;
    for (int i = Rank - 1; i >= 0; --i) {
      strides[i] = stride;
      stride *= d[i];
    }
  }
  template <class... Index>
  T& operator()(Index... index) const {
    static_assert(sizeof...(Index) == Rank);
    const std::array<int64_t, Rank> at{int64_t(index)...};
    int64_t offset = 0;
    for (int i = 0; i < Rank; ++i) offset += at[i] * strides[i];
    return data[offset];
  }
  int64_t size() const {
    int64_t n = 1;
    for (int64_t d : dims) n *= d;
    return n;
  }
};

/// A matrix of run-time dtype: `rows` rows of `cols` contiguous elements, `stride` elements from row to row.
/// A vector is a Mat of one row.
struct ConstMat {
  const void* data = nullptr;
  DType dtype = DType::kF32;
  int64_t rows = 0, cols = 0, stride = 0;

  template <class T>
  const T* row(int64_t i) const {
    return static_cast<const T*>(data) + i * stride;
  }
  bool empty() const { return data == nullptr; }
  bool contiguous() const { return stride == cols || rows <= 1; }
};

struct Mat {
  void* data = nullptr;
  DType dtype = DType::kF32;
  int64_t rows = 0, cols = 0, stride = 0;

  operator ConstMat() const { return {data, dtype, rows, cols, stride}; }
  template <class T>
  T* row(int64_t i) const {
    return static_cast<T*>(data) + i * stride;
  }
  bool empty() const { return data == nullptr; }
  bool contiguous() const { return stride == cols || rows <= 1; }
};

/// Rows [begin, begin + count) and columns likewise, of the same memory.
template <class M>
M sub_rows(M m, int64_t begin, int64_t count) {
  using Byte = std::conditional_t<std::is_same_v<M, Mat>, char, const char>;
  ESP_CHECK(begin >= 0 && count >= 0 && begin + count <= m.rows, "rows {}+{} of {}", begin, count, m.rows);
  m.data = static_cast<Byte*>(m.data) + begin * m.stride * dtype_size(m.dtype);
  m.rows = count;
  return m;
}
template <class M>
M sub_cols(M m, int64_t begin, int64_t count) {
  using Byte = std::conditional_t<std::is_same_v<M, Mat>, char, const char>;
  ESP_CHECK(begin >= 0 && count >= 0 && begin + count <= m.cols, "cols {}+{} of {}", begin, count, m.cols);
  m.data = static_cast<Byte*>(m.data) + begin * dtype_size(m.dtype);
  m.cols = count;
  return m;
}

template <class T>
ConstMat mat(const T* data, int64_t rows, int64_t cols) {
  return {data, DTypeOf<T>::value, rows, cols, cols};
}
template <class T>
Mat mat(T* data, int64_t rows, int64_t cols) {
  return {data, DTypeOf<T>::value, rows, cols, cols};
}

}  // namespace espalier
