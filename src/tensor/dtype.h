// Element types of tensors, and the two 16-bit floats as storage types with conversions.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace espalier {

enum class DType : uint8_t { kF32, kBF16, kF16, kI32, kU16, kU8, kI64, kF64, kBool };

/// Bytes an element.
constexpr int64_t dtype_size(DType dtype) {
  switch (dtype) {
    case DType::kF64:
    case DType::kI64:
      return 8;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kBF16:
    case DType::kF16:
    case DType::kU16:
      return 2;
    case DType::kU8:
    case DType::kBool:
      return 1;
  }
  return 0;
}

/// "f32", "bf16", ...
const char* dtype_name(DType dtype);
/// The inverse of dtype_name; Error kUsage otherwise.
DType parse_dtype(std::string_view name);

/// bfloat16: the upper half of an f32. Conversion rounds to nearest even; NaN stays NaN.
struct bf16 {
  uint16_t bits = 0;
  bf16() = default;
  explicit bf16(float x) {
    const uint32_t u = std::bit_cast<uint32_t>(x);
    bits = x != x ? uint16_t(u >> 16 | 0x40) : uint16_t((u + 0x7FFF + (u >> 16 & 1)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(uint32_t{bits} << 16); }
};

/// IEEE binary16. Conversion rounds to nearest even; overflow becomes infinity.
struct f16 {
  uint16_t bits = 0;
  f16() = default;
  explicit f16(float x);
  explicit operator float() const;
};

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> { static constexpr DType value = DType::kF32; };
template <>
struct DTypeOf<bf16> { static constexpr DType value = DType::kBF16; };
template <>
struct DTypeOf<f16> { static constexpr DType value = DType::kF16; };
template <>
struct DTypeOf<int32_t> { static constexpr DType value = DType::kI32; };
template <>
struct DTypeOf<uint16_t> { static constexpr DType value = DType::kU16; };
template <>
struct DTypeOf<uint8_t> { static constexpr DType value = DType::kU8; };

}  // namespace espalier
