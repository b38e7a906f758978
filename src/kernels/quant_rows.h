// Activations rounded to 8 bits (kernels/quant_gemm.h), in the order in which products read them: tiles of some rows,
// in which the blocks of all rows stand beside each other.
#pragma once
#include "base/context.h"
#include "tensor/view.h"

namespace espalier {

/// `rows` rows of `blocks` blocks of 32 columns. Indices are [block][row], and of halves [block][2][row].
struct QuantTile {
  int rows = 0;
  const int8_t* q = nullptr;             ///< [block][row][32]
  const float* scales = nullptr;
  const int32_t* sums = nullptr;         ///< -sum of q
  const int32_t* half_sums = nullptr;    ///< the same of 16 columns
  const float* minima = nullptr;         ///< scale * sum of q
  const float* half_minima = nullptr;
};

/// The rows of X in tiles of at most `tile_rows`, as equal as can be; blocks are padded with zeros to a multiple of 8.
/// Memory is the context's scratch: one set at a time.
class QuantRows {
 public:
  QuantRows(Context& ctx, ConstMat x, int tile_rows);

  int64_t tiles() const { return tiles_; }
  int64_t first_row(int64_t tile) const { return x_.rows * tile / tiles_; }
  QuantTile tile(int64_t index) const;

 private:
  ConstMat x_;
  int64_t tiles_ = 0, blocks_ = 0;
  int8_t* q_ = nullptr;
  float* numbers_ = nullptr;
};

}  // namespace espalier
