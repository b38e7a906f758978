// One element of a matrix of run-time dtype, as f32. For the reference kernels and tests: a switch an element is slow.
#pragma once
#include "tensor/view.h"

namespace espalier {

/// m[row][col] of an f32, bf16, f16 or u8 matrix.
inline float element(const ConstMat& m, int64_t row, int64_t col) {
  switch (m.dtype) {
    case DType::kF32:
      return m.row<float>(row)[col];
    case DType::kBF16:
      return float(m.row<bf16>(row)[col]);
    case DType::kF16:
      return float(m.row<f16>(row)[col]);
    case DType::kU8:
      return float(m.row<uint8_t>(row)[col]);
    default:
      ESP_CHECK(false, "element of a {} matrix", dtype_name(m.dtype));
  }
}

/// m[row][col] = value, rounded to the dtype.
inline void set_element(const Mat& m, int64_t row, int64_t col, float value) {
  switch (m.dtype) {
    case DType::kF32:
      m.row<float>(row)[col] = value;
      return;
    case DType::kBF16:
      m.row<bf16>(row)[col] = bf16(value);
      return;
    case DType::kF16:
      m.row<f16>(row)[col] = f16(value);
      return;
    case DType::kU8:
      m.row<uint8_t>(row)[col] = uint8_t(value);
      return;
    default:
      ESP_CHECK(false, "element of a {} matrix", dtype_name(m.dtype));
  }
}

}  // namespace espalier
