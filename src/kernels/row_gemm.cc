// Serving's product: Y = X W^T for few rows. Lanes run along the depth, and each output has one vector of sums of its
// own that takes the steps of depth in order, so that its bits depend on its row of X and its row of W alone, whatever
// is computed beside it. Tiles of some rows of X and four of W only share the loads. W is read from memory once.
#include <algorithm>
#include <array>
#include <utility>

#include "kernels/entries.h"
#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/row_gemm.cc"
#include "hwy/foreach_target.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace espalier {
namespace HWY_NAMESPACE {
namespace {

/// Rows of a tile: 6 * 4 sums of 32 registers, or 2 * 4 of 16.
constexpr int64_t kTileX = HWY_TARGET == HWY_AVX2 ? 2 : 6, kTileW = 4;
/// Rows of X whose numbers stay in the second cache while the rows of W pass by.
constexpr int64_t kBlockX = 48;
/// Rows of W a task.
constexpr int64_t kPieceW = 32;

/// y[i][j] = x row i . w row j (+ bias[j]) for kX rows of X and kW of W.
template <int kX, int kW, class T>
HWY_NOINLINE void dot_tile(const RowGemmArgs& args, int64_t x_row, int64_t w_row) {
  const int64_t depth = args.x.cols, x_stride = args.x.stride, w_stride = args.w.stride;
  const float* x = args.x.row<float>(x_row);
  const T* w = args.w.row<T>(w_row);
  V sums[kX][kW];
#pragma GCC unroll 8
  for (int i = 0; i < kX; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < kW; ++j) sums[i][j] = hn::Zero(F32());
  for_vectors(depth, [&](int64_t k, auto lanes) HWY_ATTR {
    V right[kW];
#pragma GCC unroll 8
    for (int j = 0; j < kW; ++j) {
      right[j] = load(w + j * w_stride + k, lanes);
      __builtin_prefetch(w + (j + kW) * w_stride + k);  // the same place of the next tile
    }
#pragma GCC unroll 8
    for (int i = 0; i < kX; ++i) {
      const V left = load(x + i * x_stride + k, lanes);
#pragma GCC unroll 8
      for (int j = 0; j < kW; ++j) sums[i][j] = hn::MulAdd(left, right[j], sums[i][j]);
    }
  });
#pragma GCC unroll 8
  for (int i = 0; i < kX; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < kW; ++j) {
      const float bias = args.bias.empty() ? 0 : args.bias.row<float>(0)[w_row + j];
      args.y.row<float>(x_row + i)[w_row + j] = hn::GetLane(hn::SumOfLanes(F32(), sums[i][j])) + bias;
    }
}

using DotTile = void (*)(const RowGemmArgs&, int64_t, int64_t);

template <int kW, class T, int... kIndex>
constexpr std::array<DotTile, sizeof...(kIndex)> dot_tiles(std::integer_sequence<int, kIndex...>) {
  return {dot_tile<kIndex + 1, kW, T>...};
}

/// Rows [begin, end) of X times rows [w_begin, w_end) of W.
template <class T>
void multiply_piece(const RowGemmArgs& args, int64_t begin, int64_t end, int64_t w_begin, int64_t w_end) {
  static constexpr auto kIndices = std::make_integer_sequence<int, int(kTileX)>();
  static constexpr auto kFour = dot_tiles<kTileW, T>(kIndices), kOne = dot_tiles<1, T>(kIndices);
  for (int64_t w = w_begin; w < w_end;) {
    const bool whole = w + kTileW <= w_end;
    const auto& tiles = whole ? kFour : kOne;
    // Tiles of nearly equal height: a last one of a single row would wait for its additions.
    const int64_t rows = end - begin, count = (rows + kTileX - 1) / kTileX;
    for (int64_t tile = 0; tile < count; ++tile) {
      const int64_t from = rows * tile / count, to = rows * (tile + 1) / count;
      tiles[size_t(to - from - 1)](args, begin + from, w);
    }
    w += whole ? kTileW : 1;
  }
}

void multiply_rows(Context& ctx, const RowGemmArgs& args) {
  const auto piece = args.w.dtype == DType::kF32    ? multiply_piece<float>
                     : args.w.dtype == DType::kBF16 ? multiply_piece<bf16>
                                                    : multiply_piece<f16>;
  parallel_ranges(ctx.pool, args.w.rows, kPieceW, [&](int64_t w_begin, int64_t w_end) {
    for (int64_t row = 0; row < args.x.rows; row += kBlockX)
      piece(args, row, std::min(row + kBlockX, args.x.rows), w_begin, w_end);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace espalier
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace espalier::cpu {

void row_gemm(Context& ctx, const RowGemmArgs& g) {
  ESP_CHECK(g.x.cols == g.w.cols && g.y.rows == g.x.rows && g.y.cols == g.w.rows, "[{}, {}] . [{}, {}]^T into [{}, {}]",
            g.x.rows, g.x.cols, g.w.rows, g.w.cols, g.y.rows, g.y.cols);
  ESP_CHECK(g.x.dtype == DType::kF32 && g.y.dtype == DType::kF32, "x {}, y {}", dtype_name(g.x.dtype),
            dtype_name(g.y.dtype));
  ESP_CHECK(g.w.dtype == DType::kF32 || g.w.dtype == DType::kBF16 || g.w.dtype == DType::kF16, "w {}",
            dtype_name(g.w.dtype));
  ESP_SIMD(ctx, multiply_rows)(ctx, g);
}

}  // namespace espalier::cpu
#endif  // HWY_ONCE
