#include "tensor/dtype.h"

#include "base/error.h"

namespace espalier {
namespace {
constexpr std::string_view kNames[] = {"f32", "bf16", "f16", "i32", "u16", "u8", "i64", "f64", "bool"};
}

const char* dtype_name(DType dtype) { return kNames[int(dtype)].data(); }

DType parse_dtype(std::string_view name) {
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (name == kNames[i]) return DType(i);
  throw error(Code::kUsage, "dtype '{}': expected f32, bf16 or f16", name);
}

f16::f16(float x) {
  const uint32_t u = std::bit_cast<uint32_t>(x);
  const uint32_t sign = u >> 16 & 0x8000;
  const float magnitude = std::abs(x);
  if (!(magnitude < 65520.0f)) {  // overflow, infinity or NaN
    bits = uint16_t(sign | (x != x ? 0x7E00 : 0x7C00));
  } else if (magnitude < 0x1p-14f) {  // subnormal: adding 0.5 leaves the rounded mantissa in the low bits
    bits = uint16_t(sign | (std::bit_cast<uint32_t>(magnitude + 0.5f) - std::bit_cast<uint32_t>(0.5f)));
  } else {
    const uint32_t m = u & 0x7FFFFFFF;
    bits = uint16_t(sign | ((m - 0x38000000 + 0xFFF + (m >> 13 & 1)) >> 13));
  }
}

f16::operator float() const {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16, exponent = bits >> 10 & 31, mantissa = bits & 0x3FF;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000 | mantissa << 13);
  if (exponent == 0) {
    const float value = float(mantissa) * 0x1p-24f;
    return sign ? -value : value;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

}  // namespace espalier
