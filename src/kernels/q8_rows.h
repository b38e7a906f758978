// Rows of numbers in 8 bits for the cache: blocks of 32 with a scale each, as ggml's Q8_0 has them, but the scales
// behind all the numbers of a row and in f32, so that both lie as vectors want them.
#pragma once
#include <cstring>

#include "base/context.h"
#include "tensor/view.h"

namespace espalier {

constexpr int64_t kQ8Block = 32;

/// Bytes of a row of `width` numbers, a multiple of 32: int8 [width], then f32 scales [width / 32].
constexpr int64_t q8_row_bytes(int64_t width) { return width + width / kQ8Block * int64_t(sizeof(float)); }

/// x = scale * q with scale = max |x| / 127 of the block, q rounded to the nearest, ties to even: off by half a scale
/// at most. src f32 [n, W], dst u8 [n, q8_row_bytes(W)]. A block with a NaN or an infinity reads back as NaN.
struct Q8RowsArgs {
  ConstMat src;
  Mat dst;
};

/// The scale of block `block` of a row of `width` numbers.
inline float q8_scale(const uint8_t* row, int64_t width, int64_t block) {
  float scale;
  std::memcpy(&scale, row + width + block * int64_t(sizeof scale), sizeof scale);
  return scale;
}
inline void set_q8_scale(uint8_t* row, int64_t width, int64_t block, float scale) {
  std::memcpy(row + width + block * int64_t(sizeof scale), &scale, sizeof scale);
}

}  // namespace espalier
