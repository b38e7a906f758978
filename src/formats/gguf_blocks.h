// The blocks of GGUF tensors and the numbers that they stand for. Scalar code that says what the formats mean
// (ggml-quants.c and gguf/quants.py of ggml are the sources); the other way is formats/gguf_quantise.h, products on the
// blocks themselves are for kernels/.
//
// d, m, dmin are f16; q are small integers, packed as said; "lo, hi" are the lower and upper four bits of a byte.
//   F32, F16, BF16  the number
//   Q8_0    32:  d, i8 q[32]                                     x = d q
//   Q4_0    32:  d, u8 qs[16]                                    x = d (q - 8); lo are q[0..15], hi are q[16..31]
//   Q4_1    32:  d, m, u8 qs[16]                                 x = d q + m
//   Q5_0    32:  d, u32 qh, u8 qs[16]                            x = d (q - 16); bit i of qh is the fifth bit of q[i]
//   Q5_1    32:  d, m, u32 qh, u8 qs[16]                         x = d q + m
//   IQ4_NL  32:  d, u8 qs[16]                                    x = d table[q]
//   Q2_K   256:  u8 scales[16], u8 qs[64], d, dmin               x = d lo(scale) q - dmin hi(scale), 16 a scale
//   Q3_K   256:  u8 hmask[32], u8 qs[64], 16 six-bit scales, d   x = d (scale - 32) (q - 4), 16 a scale
//   Q4_K   256:  d, dmin, 8 six-bit (scale, min), u8 qs[128]     x = d scale q - dmin min, 32 a scale
//   Q5_K   256:  as Q4_K, u8 qh[32] before qs                    the same with five bits
//   Q6_K   256:  u8 ql[128], u8 qh[64], i8 scales[16], d         x = d scale (q - 32), 16 a scale
//   IQ4_XS 256:  d, u16 and u8[4]: 8 six-bit scales, u8 qs[128]  x = d (scale - 32) table[q], 32 a scale
// Two-bit fields of the K types: 32 bytes hold 128 of them, the lowest two bits of each byte first.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "formats/gguf_types.h"

namespace espalier {

/// True for the types listed above.
bool can_dequantise(GgmlType type);

/// `elements` numbers, whole blocks, from the blocks' bytes. Error kUnsupported naming the type where it is none of
/// those above; `what` names tensor and file.
void dequantise(GgmlType type, const std::byte* blocks, int64_t elements, float* out, const std::string& what);

}  // namespace espalier
