// The blocks of GGUF tensors as they lie in the file, for those who take them apart (formats/gguf_blocks.h says what a
// block means). All fields are bytes, so that nothing is aligned and nothing padded.
#pragma once
#include <cstdint>

#include "tensor/dtype.h"

namespace espalier::gguf_layouts {

struct Half {
  uint8_t bytes[2];
  uint16_t bits() const { return uint16_t(bytes[0] | bytes[1] << 8); }
  operator float() const {
    f16 half;
    half.bits = bits();
    return float(half);
  }
};
inline Half half_of(float x) {
  const f16 half(x);
  return {{uint8_t(half.bits), uint8_t(half.bits >> 8)}};
}
struct Q8_0 { Half d; int8_t qs[32]; };
struct Q4_0 { Half d; uint8_t qs[16]; };
struct Q4_1 { Half d, m; uint8_t qs[16]; };
struct Q5_0 { Half d; uint8_t qh[4], qs[16]; };
struct Q5_1 { Half d, m; uint8_t qh[4], qs[16]; };
struct IQ4_NL { Half d; uint8_t qs[16]; };
struct Q2_K { uint8_t scales[16], qs[64]; Half d, dmin; };
struct Q3_K { uint8_t hmask[32], qs[64], scales[12]; Half d; };
struct Q4_K { Half d, dmin; uint8_t scales[12], qs[128]; };
struct Q5_K { Half d, dmin; uint8_t scales[12], qh[32], qs[128]; };
struct Q6_K { uint8_t ql[128], qh[64]; int8_t scales[16]; Half d; };
struct IQ4_XS { Half d; uint8_t scales_h[2], scales_l[4], qs[128]; };

/// The sixteen levels of the IQ4 types.
constexpr int8_t kLevels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/// The fifth bit of number i of a Q5_0 or Q5_1 block, in place: 16 or 0.
inline int fifth(const uint8_t (&qh)[4], int i) { return (qh[i / 8] >> (i % 8) & 1) << 4; }

/// Scale and minimum of sub-block s of 32 numbers of Q4_K and Q5_K: the first four in six bits of a byte each, the
/// others' lower four bits in a byte of their own and their upper two above the first four's.
struct ScaleMin {
  int scale, least;
};
inline ScaleMin scale_min(const uint8_t (&packed)[12], int s) {
  return {s < 4 ? packed[s] & 63 : (packed[s + 4] & 15) | packed[s - 4] >> 6 << 4,
          s < 4 ? packed[s + 4] & 63 : packed[s + 4] >> 4 | packed[s] >> 6 << 4};
}

/// Scale of sub-block s of 16 numbers: four bits from the first eight bytes, two from the last four.
inline int scale_of(const Q3_K& b, int s) {
  const int low = b.scales[s % 8] >> (s / 8 * 4) & 15, top = b.scales[8 + s % 4] >> (s / 4 * 2) & 3;
  return (low | top << 4) - 32;
}

/// Scale of sub-block s of 32 numbers.
inline int scale_of(const IQ4_XS& b, int s) {
  const int high = b.scales_h[s / 4] >> (s % 4 * 2) & 3;
  return ((b.scales_l[s / 2] >> (s % 2 * 4) & 15) | high << 4) - 32;
}

}  // namespace espalier::gguf_layouts
