// How loops over matrices are cut into tasks for the pool: by shape alone, never by the number of threads, so that
// results are the same bits for any number of threads.
#pragma once
#include <algorithm>
#include <array>

#include "base/context.h"
#include "kernels/cache.h"
#include "tensor/view.h"

namespace espalier {

/// Elements of a task: long enough to hide the cost of handing it out, short enough to share evenly.
constexpr int64_t kPieceElements = 32768;

/// True where these matrices of one shape may be walked as a single row.
template <class... M>
bool all_contiguous(const M&... m) {
  return (m.contiguous() && ...);
}

/// fn(row, begin, count) on runs within rows that together cover [rows, cols] once. When `flat`, the matrix is one
/// row: fn(0, begin, count).
template <class F>
void for_runs(Context& ctx, int64_t rows, int64_t cols, bool flat, const F& fn) {
  if (flat) {
    cols *= rows;
    rows = std::min<int64_t>(rows, 1);
  }
  parallel_ranges(ctx.pool, rows * cols, kPieceElements, [&](int64_t at, int64_t end) {
    while (at < end) {
      const int64_t row = at / cols, begin = at % cols, count = std::min(cols - begin, end - at);
      fn(row, begin, count);
      at += count;
    }
  });
}

/// fn(begin, end) on whole rows, for loops that need a row at a time.
template <class F>
void for_rows(Context& ctx, int64_t rows, int64_t cols, const F& fn) {
  parallel_ranges(ctx.pool, rows, std::max<int64_t>(1, kPieceElements / std::max<int64_t>(1, cols)), fn);
}

/// Sums over rows into float targets[K] of `cols` each (null: not wanted): fn(begin, end, float* sums) adds rows
/// [begin, end) into its piece's zeroed sums [K, cols]; then the targets gain the pieces, at most 64, in order.
template <size_t K, class F>
void reduce_rows(Context& ctx, int64_t rows, int64_t cols, const std::array<float*, K>& targets, const F& fn) {
  const int64_t grain = std::max<int64_t>(16, (rows + 63) / 64), pieces = (rows + grain - 1) / grain;
  const int64_t width = int64_t(K) * cols;
  float* partials = scratch(ctx).get<float>(Slot::kPartials, pieces * width);
  parallel_ranges(ctx.pool, rows, grain, [&](int64_t begin, int64_t end) {
    float* sums = partials + begin / grain * width;
    std::fill_n(sums, width, 0.0f);
    fn(begin, end, sums);
  });
  parallel_ranges(ctx.pool, cols, 512, [&](int64_t first, int64_t last) {
    for (size_t k = 0; k < K; ++k) {
      if (!targets[k]) continue;
      for (int64_t piece = 0; piece < pieces; ++piece) {
        const float* part = partials + piece * width + int64_t(k) * cols;
        for (int64_t c = first; c < last; ++c) targets[k][c] += part[c];
      }
    }
  });
}

/// K sums over [0, n): fn(begin, end) gives a piece's, which are added in order.
template <size_t K, class F>
std::array<double, K> sum_pieces(Context& ctx, int64_t n, const F& fn) {
  const int64_t pieces = (n + kPieceElements - 1) / kPieceElements;
  auto* partials = scratch(ctx).get<std::array<double, K>>(Slot::kPartials, pieces);
  parallel_ranges(ctx.pool, n, kPieceElements,
                  [&](int64_t begin, int64_t end) { partials[begin / kPieceElements] = fn(begin, end); });
  std::array<double, K> total{};
  for (int64_t piece = 0; piece < pieces; ++piece)
    for (size_t k = 0; k < K; ++k) total[k] += partials[piece][k];
  return total;
}

}  // namespace espalier
