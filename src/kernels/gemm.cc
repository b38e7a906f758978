// The matrix product: both operands are packed into panels (pack-inl.h), which every task of the product then shares,
// and tiles of C are computed panel by panel in registers (panels-inl.h). Written here rather than borrowed, because
// a library packs again for each tile, reads bf16 at half the speed of f32 where the processor's bf16 is slow, cannot
// be pinned to an ISA for one call, and runs its own threads.
//
// The plan (chunks, tiles, order of sums) follows from the shape alone. Chunks of depth are added to C one after
// another, so that the bits do not depend on the threads.
#include "kernels/gemm.h"

#include <algorithm>

#include "kernels/cache.h"
#include "kernels/entries.h"
#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm.cc"
#include "hwy/foreach_target.h"
#include "kernels/pack-inl.h"
#include "kernels/panels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace espalier {
namespace HWY_NAMESPACE {
namespace {

/// Depth of a chunk: a panel of B and a few of A stay in the second cache, and C is read and written rarely.
constexpr int64_t kChunkDepth = 1024;
/// Elements of a packed operand, so that what one task packs another finds in a cache.
constexpr int64_t kChunkElements = 2 << 20;
/// A tile of C in panels: its part of A fills half of a small second cache.
constexpr int64_t kTileRowPanels = HWY_TARGET == HWY_AVX2 ? 16 : 8;
constexpr int64_t kTileColumnPanels = 16;
/// Tiles are made narrower until there are this many, so that they share well over many threads.
constexpr int64_t kTilesWanted = 64;

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// [0, n) in equal parts of at most `most`, each but the last a multiple of `unit`: the size of a part.
int64_t even_part(int64_t n, int64_t most, int64_t unit) {
  return ceil_div(ceil_div(n, ceil_div(n, most)), unit) * unit;
}

/// The part of the product between two barriers: rows x columns of C, one chunk of depth.
struct Chunk {
  int64_t row, rows, column, columns, k, depth;
  bool last;  ///< in depth
};

/// A panel of `lines` rows (or columns) of a matrix, from `line` on.
template <class T>
void pack_lines(const ConstMat& m, bool rows, int64_t line, int64_t lines, const Chunk& chunk, float* dst,
                int64_t width) {
  if (rows)
    pack_rows(m.row<T>(line) + chunk.k, m.stride, lines, chunk.depth, dst, width);
  else
    pack_columns(m.row<T>(chunk.k) + line, m.stride, lines, chunk.depth, dst, width);
}
constexpr auto packer(DType dtype) { return dtype == DType::kF32 ? pack_lines<float> : pack_lines<bf16>; }

/// One call: the operands, and the memory the chunks share.
struct Product {
  Context& ctx;
  const GemmArgs& args;
  Mat sums;  ///< f32, where C's sums gather: C itself, or scratch when C is bf16
  float *packed_a, *packed_b;

  void pack_a(const Chunk& chunk, int64_t panel) const {
    const RowPanels panels{chunk.rows};
    const int64_t begin = panels.begin(panel), height = panels.height(panel);
    packer(args.a.dtype)(args.a, !args.a_transposed, chunk.row + begin, height, chunk,
                         packed_a + begin * chunk.depth, height);
  }
  void pack_b(const Chunk& chunk, int64_t panel) const {
    const int64_t begin = panel * kPanelColumns, lines = std::min(kPanelColumns, chunk.columns - begin);
    packer(args.b.dtype)(args.b, args.b_transposed, chunk.column + begin, lines, chunk,
                         packed_b + begin * chunk.depth, kPanelColumns);
  }
  void pack(const Chunk& chunk, bool with_a) const;
  void multiply(const Chunk& chunk) const;
  void multiply_tile(const Chunk& chunk, int64_t row_panel, int64_t row_panels, int64_t column_panel,
                     int64_t column_panels) const;
  void round_tile(int64_t row, int64_t rows, int64_t column, int64_t columns) const;
};

void Product::pack(const Chunk& chunk, bool with_a) const {
  constexpr int64_t kGroupA = 8, kGroupB = 4;  // panels a task: some 10 microseconds
  const int64_t a_panels = with_a ? RowPanels{chunk.rows}.count : 0, a_tasks = ceil_div(a_panels, kGroupA);
  const int64_t b_panels = ceil_div(chunk.columns, kPanelColumns), b_tasks = ceil_div(b_panels, kGroupB);
  ctx.pool.parallel_for(a_tasks + b_tasks, [&](int64_t task, int) {
    if (task < a_tasks) {
      for (int64_t p = task * kGroupA; p < std::min(a_panels, (task + 1) * kGroupA); ++p) pack_a(chunk, p);
    } else {
      task -= a_tasks;
      for (int64_t p = task * kGroupB; p < std::min(b_panels, (task + 1) * kGroupB); ++p) pack_b(chunk, p);
    }
  });
}

/// Column panel by column panel, so that it stays in the first cache while the panels of A pass by.
void Product::multiply_tile(const Chunk& chunk, int64_t row_panel, int64_t row_panels, int64_t column_panel,
                            int64_t column_panels) const {
  const RowPanels panels{chunk.rows};
  const int64_t panel_size = chunk.depth * kPanelColumns, share = panel_size / 16 / row_panels;
  for (int64_t q = column_panel; q < column_panel + column_panels; ++q) {
    const int64_t column = q * kPanelColumns;
    const float* b = packed_b + q * panel_size;
    PanelOutput out{.c = nullptr, .stride = sums.stride, .columns = std::min(kPanelColumns, chunk.columns - column)};
    out.accumulate = args.accumulate || chunk.k > 0;
    if (chunk.k == 0 && !args.bias.empty()) out.bias = args.bias.row<float>(0) + chunk.column + column;
    for (int64_t p = 0; p < row_panels; ++p) {
      const int64_t row = panels.begin(row_panel + p), height = panels.height(row_panel + p);
      out.c = sums.row<float>(chunk.row + row) + chunk.column + column;
      const Ahead next{b + panel_size + p * share * 16, std::min(share, chunk.depth / 4)};
      multiply_panels(height, {packed_a + row * chunk.depth, height, b, chunk.depth, next}, out);
    }
  }
}

/// C = bf16(sums) for a tile that is complete.
void Product::round_tile(int64_t row, int64_t rows, int64_t column, int64_t columns) const {
  for (int64_t i = row; i < row + rows; ++i) {
    const float* from = sums.row<float>(i) + column;
    bf16* to = args.c.row<bf16>(i) + column;
    for_vectors(columns, [&](int64_t j, auto lanes) HWY_ATTR { store(to + j, load(from + j, lanes), lanes); });
  }
}

void Product::multiply(const Chunk& chunk) const {
  const RowPanels row_panels{chunk.rows};
  const int64_t column_panels = ceil_div(chunk.columns, kPanelColumns);
  const int64_t tall = ceil_div(row_panels.count, kTileRowPanels);
  int64_t wide = ceil_div(column_panels, kTileColumnPanels);
  while (tall * wide < kTilesWanted && column_panels >= 4 * wide) wide *= 2;
  ctx.pool.parallel_for(tall * wide, [&](int64_t task, int) {
    const auto part = [](int64_t n, int64_t parts, int64_t i) { return n * i / parts; };
    const int64_t p = part(row_panels.count, tall, task % tall), p_end = part(row_panels.count, tall, task % tall + 1);
    const int64_t q = part(column_panels, wide, task / tall), q_end = part(column_panels, wide, task / tall + 1);
    multiply_tile(chunk, p, p_end - p, q, q_end - q);
    if (args.c.dtype == DType::kBF16 && chunk.last) {
      const int64_t row = row_panels.begin(p), column = q * kPanelColumns;
      round_tile(chunk.row + row, row_panels.begin(p_end) - row, chunk.column + column,
                 std::min(chunk.columns, q_end * kPanelColumns) - column);
    }
  });
}

void multiply(Context& ctx, const GemmArgs& args, int64_t depth) {
  const int64_t rows = args.c.rows, columns = args.c.cols;
  const int64_t part_depth = even_part(depth, kChunkDepth, 8), most = kChunkElements / part_depth;
  const int64_t part_rows = even_part(rows, most, 1);
  const int64_t part_columns = even_part(columns, most, kPanelColumns);
  float* packed = scratch(ctx).get<float>(Slot::kGemmPacked, part_depth * (part_rows + part_columns + 64));
  Product product{ctx, args, args.c, packed, packed + ceil_div(part_depth * part_rows, 16) * 16};
  if (args.c.dtype == DType::kBF16)
    product.sums = mat(scratch(ctx).get<float>(Slot::kGemm, rows * columns), rows, columns);
  for (int64_t row = 0; row < rows; row += part_rows)
    for (int64_t column = 0; column < columns; column += part_columns)
      for (int64_t k = 0; k < depth; k += part_depth) {
        const Chunk chunk{.row = row,
                          .rows = std::min(part_rows, rows - row),
                          .column = column,
                          .columns = std::min(part_columns, columns - column),
                          .k = k,
                          .depth = std::min(part_depth, depth - k),
                          .last = k + part_depth >= depth};
        product.pack(chunk, column == 0 || part_depth < depth);
        product.multiply(chunk);
      }
}

/// C = bias (+ C) when there is nothing to sum.
void multiply_nothing(const GemmArgs& args) {
  for (int64_t i = 0; i < args.c.rows; ++i)
    for (int64_t j = 0; j < args.c.cols; ++j) {
      const float bias = args.bias.empty() ? 0 : args.bias.row<float>(0)[j];
      if (args.c.dtype == DType::kBF16)
        args.c.row<bf16>(i)[j] = bf16(bias);
      else
        args.c.row<float>(i)[j] = bias + (args.accumulate ? args.c.row<float>(i)[j] : 0);
    }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace espalier
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace espalier::cpu {
namespace {

/// Checks shapes and dtypes and returns the depth.
int64_t checked_depth(const GemmArgs& g) {
  const int64_t a_rows = g.a_transposed ? g.a.cols : g.a.rows, a_depth = g.a_transposed ? g.a.rows : g.a.cols;
  const int64_t b_columns = g.b_transposed ? g.b.rows : g.b.cols, b_depth = g.b_transposed ? g.b.cols : g.b.rows;
  ESP_CHECK(a_depth == b_depth && a_rows == g.c.rows && b_columns == g.c.cols, "[{}, {}] . [{}, {}] into [{}, {}]",
            a_rows, a_depth, b_depth, b_columns, g.c.rows, g.c.cols);
  const auto is_float = [](DType dtype) { return dtype == DType::kF32 || dtype == DType::kBF16; };
  ESP_CHECK(is_float(g.a.dtype) && is_float(g.b.dtype) && is_float(g.c.dtype), "{} . {} into {}",
            dtype_name(g.a.dtype), dtype_name(g.b.dtype), dtype_name(g.c.dtype));
  ESP_CHECK(g.c.dtype == DType::kF32 || !g.accumulate, "accumulating into bf16");
  ESP_CHECK(g.bias.empty() || (g.bias.dtype == DType::kF32 && g.bias.cols == g.c.cols), "bias {} [{}] for {} columns",
            dtype_name(g.bias.dtype), g.bias.cols, g.c.cols);
  return a_depth;
}

}  // namespace

void gemm(Context& ctx, const GemmArgs& args) {
  const int64_t depth = checked_depth(args);
  if (args.c.rows == 0 || args.c.cols == 0) return;
  if (depth == 0) return ESP_SIMD(ctx, multiply_nothing)(args);
  ESP_SIMD(ctx, multiply)(ctx, args, depth);
}

}  // namespace espalier::cpu

namespace espalier {

bool has_native_bf16() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vl");
}

}  // namespace espalier
#endif  // HWY_ONCE
