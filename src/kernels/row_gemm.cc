// Serving's product: Y = X W^T for few rows. Lanes run along the depth, and each output has one vector of sums of its
// own that takes the steps of depth in order, so that its bits depend on its row of X and its row of W alone, whatever
// is computed beside it. Tiles of some rows of X and four of W only share the loads. W is read from memory once.
#include <algorithm>
#include <array>
#include <utility>

#include "kernels/cache.h"
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
/// From so many rows on, rows of W are packed: it costs a fetch from memory some of its overlap with arithmetic.
constexpr int64_t kPackedFrom = 17;
/// Rows of W a task.
constexpr int64_t kPieceW = 32;

/// Rows of W where they lie.
template <class T>
struct PlainRows {
  const T* w;
  int64_t stride;

  template <class Lanes>
  HWY_INLINE V at(int64_t row, int64_t k, Lanes lanes) const {
    __builtin_prefetch(w + (row + kTileW) * stride + k);  // the same place of the next tile
    return load(w + row * stride + k, lanes);
  }
};

/// kTileW rows of W as f32, vector beside vector, zeros at the end: for several tiles of X, so that W is widened once
/// and its rows, often a power of two apart, do not push each other out of the first cache.
struct PackedRows {
  const float* w;

  template <class Lanes>
  HWY_INLINE V at(int64_t row, int64_t k, Lanes) const {
    return hn::Load(F32(), w + k * kTileW + row * kLanes);
  }
  static int64_t size(int64_t depth) { return (depth + kLanes - 1) / kLanes * kLanes * kTileW; }
  template <class T>
  static PackedRows pack(const PlainRows<T>& rows, int64_t depth, float* memory) {
    for_vectors(depth, [&](int64_t k, auto lanes) HWY_ATTR {
      for (int64_t j = 0; j < kTileW; ++j) store(memory + k * kTileW + j * kLanes, rows.at(j, k, lanes), Whole());
    });
    return {memory};
  }
};

/// y[i][j] = x row i . w row j (+ bias[j]) for kX rows of X and kW of W.
template <int kX, int kW, class Rows>
HWY_NOINLINE void dot_tile(const RowGemmArgs& args, const Rows& rows, int64_t x_row, int64_t w_row) {
  const int64_t x_stride = args.x.stride;
  const float* x = args.x.row<float>(x_row);
  V sums[kX][kW];
#pragma GCC unroll 8
  for (int i = 0; i < kX; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < kW; ++j) sums[i][j] = hn::Zero(F32());
  for_vectors(args.x.cols, [&](int64_t k, auto lanes) HWY_ATTR {
    V right[kW];
#pragma GCC unroll 8
    for (int j = 0; j < kW; ++j) right[j] = rows.at(j, k, lanes);
#pragma GCC unroll 8
    for (int i = 0; i < kX; ++i) {
      const V left = load(x + i * x_stride + k, lanes);
#pragma GCC unroll 8
      for (int j = 0; j < kW; ++j) sums[i][j] = hn::MulAdd(left, right[j], sums[i][j]);
    }
  });
  const F32x4 four;
  const float* bias = args.bias.empty() ? nullptr : args.bias.row<float>(0) + w_row;
#pragma GCC unroll 8
  for (int i = 0; i < kX; ++i) {
    float* y = args.y.row<float>(x_row + i) + w_row;
    if constexpr (kW == kTileW) {
      const auto total = sum_each(sums[i][0], sums[i][1], sums[i][2], sums[i][3]);
      hn::StoreU(bias ? hn::Add(total, hn::LoadU(four, bias)) : total, four, y);
    } else {
      const V zero = hn::Zero(F32());
      *y = hn::GetLane(sum_each(sums[i][0], zero, zero, zero)) + (bias ? *bias : 0);
    }
  }
}

template <class Rows>
using DotTile = void (*)(const RowGemmArgs&, const Rows&, int64_t, int64_t);

template <int kW, class Rows, int... kIndex>
constexpr std::array<DotTile<Rows>, sizeof...(kIndex)> dot_tiles(std::integer_sequence<int, kIndex...>) {
  return {dot_tile<kIndex + 1, kW, Rows>...};
}

/// Rows [begin, end) of X times kW rows of W, in tiles of nearly equal height: a last one of a single row would wait
/// for its additions.
template <int kW, class Rows>
void multiply_tiles(const RowGemmArgs& args, const Rows& rows, int64_t begin, int64_t end, int64_t w_row) {
  static constexpr auto kTiles = dot_tiles<kW, Rows>(std::make_integer_sequence<int, int(kTileX)>());
  const int64_t count = (end - begin + kTileX - 1) / kTileX;
  for (int64_t tile = 0; tile < count; ++tile) {
    const int64_t from = begin + (end - begin) * tile / count, to = begin + (end - begin) * (tile + 1) / count;
    kTiles[size_t(to - from - 1)](args, rows, from, w_row);
  }
}

/// Rows [begin, end) of X times rows [w_begin, w_end) of W.
template <class T>
void multiply_piece(const RowGemmArgs& args, int64_t begin, int64_t end, int64_t w_begin, int64_t w_end,
                    float* memory) {
  int64_t w = w_begin;
  for (; w + kTileW <= w_end; w += kTileW) {
    const PlainRows<T> rows{args.w.row<T>(w), args.w.stride};
    if (end - begin >= kPackedFrom)
      multiply_tiles<kTileW>(args, PackedRows::pack(rows, args.x.cols, memory), begin, end, w);
    else
      multiply_tiles<kTileW>(args, rows, begin, end, w);
  }
  for (; w < w_end; ++w) multiply_tiles<1>(args, PlainRows<T>{args.w.row<T>(w), args.w.stride}, begin, end, w);
}

void multiply_rows(Context& ctx, const RowGemmArgs& args) {
  const auto piece = args.w.dtype == DType::kF32    ? multiply_piece<float>
                     : args.w.dtype == DType::kBF16 ? multiply_piece<bf16>
                                                    : multiply_piece<f16>;
  const int64_t size = PackedRows::size(args.x.cols);
  float* memory = scratch(ctx).get<float>(Slot::kRowGemm, size * ctx.pool.size());
  ctx.pool.parallel_for((args.w.rows + kPieceW - 1) / kPieceW, [&](int64_t task, int worker) {
    const int64_t w_begin = task * kPieceW, w_end = std::min(w_begin + kPieceW, args.w.rows);
    for (int64_t row = 0; row < args.x.rows; row += kBlockX)
      piece(args, row, std::min(row + kBlockX, args.x.rows), w_begin, w_end, memory + worker * size);
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
