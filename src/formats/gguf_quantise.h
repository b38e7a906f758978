// Numbers into the blocks of GGUF tensors (formats/gguf_blocks.h says what the blocks mean), row by row or in any other
// run of whole blocks: no block knows its neighbours, so the bytes do not depend on how the work is cut.
//
//   F32, F16, BF16                   to nearest, ties to even
//   Q8_0, Q4_0, Q4_1, Q5_0, Q5_1     ggml's reference rounding, the same bytes: the scale follows from the numbers of
//                                    largest magnitude, or from the smallest and the largest
//   IQ4_NL, Q2_K, Q3_K, Q6_K, Q4_K,  scales and minima are searched, so that the sum of squared differences becomes
//   Q5_K                             small (formats/gguf_search.h)
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/context.h"
#include "formats/gguf_types.h"

namespace espalier {

/// True for the types listed above.
bool can_quantise(GgmlType type);

/// The largest magnitude that quantise() takes for this type: what f16 holds where the type has numbers or scales in
/// f16.
float largest_quantisable(GgmlType type);

/// `elements` numbers, whole blocks, into `out`. The caller has asked can_quantise(); the numbers are finite and no
/// larger than largest_quantisable(type).
void quantise(GgmlType type, const float* numbers, int64_t elements, std::byte* out);

/// The same on all threads; the same bytes.
void quantise(Context& ctx, GgmlType type, const float* numbers, int64_t elements, std::byte* out);

}  // namespace espalier
