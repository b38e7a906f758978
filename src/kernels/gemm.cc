// The matrix product. Both operands are packed into panels (pack-inl.h), whose products are summed in registers
// (panels-inl.h). The shorter operand is packed once a chunk of depth and shared by all tasks; of the longer one, each
// task packs a block of its own that stays in the second cache, so that packing costs one read of memory. Rows of A
// need no packing for their own block: their numbers are broadcast one by one from wherever they lie.
// Written here rather than borrowed, because a library packs again for each tile, reads bf16 at half the speed of f32
// where the processor's bf16 is slow, cannot be pinned to an ISA for one call, and runs its own threads.
//
// Where the processor multiplies bf16 faster than f32, a packed number is a pair of bf16 (x86/bf16_panels.h), and
// everything else is the same. Depth is counted in packed numbers.
//
// An output is summed step by step of depth, chunk by chunk, and chunks follow from the depth alone: neither threads
// nor the cut into tasks touches a bit of the result.
#include "kernels/gemm.h"

#include <algorithm>

#include "kernels/cache.h"
#include "kernels/entries.h"
#include "kernels/simd.h"
#include "kernels/x86/bf16_panels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm.cc"
#include "hwy/foreach_target.h"
#include "kernels/pack-inl.h"
#include "kernels/panels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace espalier {
namespace HWY_NAMESPACE {
namespace {

/// Depth of a chunk: deep, so that C is read and written rarely.
constexpr int64_t kChunkDepth = 1024;
/// Elements of a task's own block: half of a second cache.
constexpr int64_t kBlockElements = HWY_TARGET == HWY_AVX2 ? 64 << 10 : 128 << 10;
/// Elements of the shared operand of a chunk.
constexpr int64_t kSharedElements = 2 << 20;
/// Tasks a thread, and the fewest panels of a block that still let the shared panels be used often enough.
constexpr int64_t kTasksAThread = 4, kFewestPanels = 8;
/// A product of at most this depth and at least these columns shares A: a panel of A is then small enough to stay in
/// the first cache while those of B pass by.
constexpr int64_t kShallow = 512, kWide = 1024;

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// The size of one of the equal parts of [0, n), each at most `most` and a multiple of `unit`.
int64_t even_part(int64_t n, int64_t most, int64_t unit) {
  return ceil_div(ceil_div(n, ceil_div(n, most)), unit) * unit;
}

/// One operand: its lines (rows of A, columns of B) in panels.
struct Operand {
  ConstMat m;
  bool lines_are_rows;
  RowPanels rows;      ///< of A
  int64_t columns;     ///< of B, 0 for A
  bool pairs;

  static Operand of_a(const GemmArgs& g, bool pairs) { return {g.a, !g.a_transposed, {g.c.rows}, 0, pairs}; }
  static Operand of_b(const GemmArgs& g, bool pairs) { return {g.b, g.b_transposed, {0, 1}, g.c.cols, pairs}; }

  bool is_a() const { return columns == 0; }
  /// True where a task's own block is read where it lies. Not where the rows of a panel would fall on the same few
  /// lines of the first cache.
  bool stays_in_place() const {
    return is_a() && lines_are_rows && m.dtype == DType::kF32 && m.stride * int64_t(sizeof(float)) % 4096 != 0;
  }
  int64_t lines() const { return is_a() ? rows.lines : columns; }
  int64_t panels() const { return is_a() ? rows.count : ceil_div(columns, kPanelColumns); }
  int64_t begin(int64_t panel) const { return is_a() ? rows.begin(panel) : panel * kPanelColumns; }
  int64_t height(int64_t panel) const {
    return is_a() ? rows.height(panel) : std::min(kPanelColumns, columns - panel * kPanelColumns);
  }
  /// Lines that a packed panel takes: those of B are padded.
  int64_t width(int64_t panel) const { return is_a() ? rows.height(panel) : kPanelColumns; }

  /// Panels [panel, end) for depth [k, k + depth), one after another.
  void pack(int64_t panel, int64_t end, int64_t k, int64_t depth, float* dst) const;
  template <class T>
  void pack_panel(int64_t panel, int64_t k, int64_t depth, float* dst) const;
  void pack_pair_panel(int64_t panel, int64_t k, int64_t depth, float* dst) const;
};

template <class T>
void Operand::pack_panel(int64_t p, int64_t k, int64_t depth, float* dst) const {
  if (lines_are_rows)
    pack_rows(m.row<T>(begin(p)) + k, m.stride, height(p), depth, dst, width(p));
  else
    pack_columns(m.row<T>(k) + begin(p), m.stride, height(p), depth, dst, width(p));
}

void Operand::pack_pair_panel(int64_t p, int64_t k, int64_t depth, float* dst) const {
  const int64_t numbers = std::min(2 * depth, (lines_are_rows ? m.cols : m.rows) - 2 * k);
  if (lines_are_rows)
    pack_pair_rows(m.row<bf16>(begin(p)) + 2 * k, m.stride, height(p), numbers, dst, width(p));
  else
    pack_pair_columns(m.row<bf16>(2 * k) + begin(p), m.stride, height(p), numbers, dst, width(p));
}

void Operand::pack(int64_t panel, int64_t end, int64_t k, int64_t depth, float* dst) const {
  // Panels of columns are packed side by side, some depth at a time: the rows they share are then read once.
  const int64_t step = lines_are_rows ? depth : 32;
  for (int64_t at = 0; at < depth; at += step) {
    const int64_t count = std::min(step, depth - at);
    for (int64_t p = panel; p < end; ++p) {
      float* to = dst + (begin(p) - begin(panel)) * depth + at * width(p);
      if (pairs)
        pack_pair_panel(p, k + at, count, to);
      else if (m.dtype == DType::kF32)
        pack_panel<float>(p, k + at, count, to);
      else
        pack_panel<bf16>(p, k + at, count, to);
    }
  }
}

/// A chunk of depth, and the panels of the shared operand that are packed for it.
struct Chunk {
  int64_t k, depth, panel, panels;
  bool first, last;
};

/// Panels [panel, end) of one operand, packed, or rows of A where they lie.
struct Panels {
  const float* data;
  int64_t panel, end;
  bool in_place = false;
};

/// One call.
struct Product {
  Context& ctx;
  const GemmArgs& args;
  Operand a, b;
  Mat sums = {};  ///< f32, where sums gather between chunks: C, or scratch when C is bf16
  float* shared_memory = nullptr;

  bool shares_b() const {
    return args.c.rows >= args.c.cols && (depth_of_a() > kShallow || args.c.cols < kWide);
  }
  int64_t depth_of_a() const { return args.a_transposed ? args.a.rows : args.a.cols; }
  const Operand& shared() const { return shares_b() ? b : a; }
  const Operand& own() const { return shares_b() ? a : b; }

  void run(int64_t depth);
  void pack_shared(const Chunk& chunk) const;
  void multiply(const Chunk& chunk) const;
  Panels own_block(const Chunk& chunk, int64_t panel, int64_t end, float* memory) const;
  void multiply_block(const Chunk& chunk, const Panels& rows, const Panels& columns) const;
  void multiply_panel_pair(const Chunk& chunk, int64_t p, int64_t q, const PanelOperands& in) const;
};

void Product::pack_shared(const Chunk& chunk) const {
  const int64_t group = 4, first = shared().begin(chunk.panel);
  ctx.pool.parallel_for(ceil_div(chunk.panels, group), [&](int64_t task, int) {
    const int64_t panel = chunk.panel + task * group, end = std::min(panel + group, chunk.panel + chunk.panels);
    float* to = shared_memory + (shared().begin(panel) - first) * chunk.depth;
    shared().pack(panel, end, chunk.k, chunk.depth, to);
  });
}

/// rows x kPanelColumns sums of panels of pairs, to where they go.
void multiply_pairs(int64_t rows, const PanelOperands& in, const PanelOutput& out) {
  static_assert(HWY_TARGET != HWY_AVX3 || (kPanelRows == 14 && kPanelColumns == 32));
  alignas(64) float sums[kPanelRows * kPanelColumns];
  const auto words = [](const float* packed) { return reinterpret_cast<const BF16Pair*>(packed); };
  multiply_bf16_panels(rows, words(in.a), words(in.b), in.depth, sums);
  for (int64_t i = 0; i < rows; ++i)
    for_vectors(out.columns, [&](int64_t j, auto lanes) HWY_ATTR {
      write_sums(out.c + i * out.stride + j, load(sums + i * kPanelColumns + j, lanes), j, out, lanes);
    });
}

/// The product of panel p of A and panel q of B goes to C.
void Product::multiply_panel_pair(const Chunk& chunk, int64_t p, int64_t q, const PanelOperands& in) const {
  const int64_t row = a.begin(p), column = b.begin(q), rows = a.height(p), columns = b.height(q);
  alignas(64) float buffer[kPanelRows * kPanelColumns];
  const bool through_buffer = sums.empty();
  PanelOutput out{.c = through_buffer ? buffer : sums.row<float>(row) + column,
                  .stride = through_buffer ? kPanelColumns : sums.stride,
                  .columns = columns,
                  .accumulate = args.accumulate || !chunk.first};
  if (chunk.first && !args.bias.empty()) out.bias = args.bias.row<float>(0) + column;
  if (a.pairs)
    multiply_pairs(rows, in, out);
  else
    multiply_panels(rows, in, out);
  if (!chunk.last || args.c.dtype == DType::kF32) return;
  for (int64_t i = 0; i < rows; ++i) {
    bf16* to = args.c.row<bf16>(row + i) + column;
    for_vectors(columns, [&](int64_t j, auto lanes) HWY_ATTR {
      store(to + j, load(out.c + i * out.stride + j, lanes), lanes);
    });
  }
}

/// The shared panels pass by one after another; each meets all panels of the task's block, while the memory of the
/// next is brought closer.
void Product::multiply_block(const Chunk& chunk, const Panels& rows, const Panels& columns) const {
  const auto& outer = shares_b() ? columns : rows;
  const auto& inner = shares_b() ? rows : columns;
  for (int64_t s = outer.panel; s < outer.end; ++s) {
    const int64_t after = shared().begin(s) - shared().begin(outer.panel) + shared().width(s);
    const float* next = outer.data + after * chunk.depth;
    const int64_t lines = shared().width(s) * chunk.depth / 16 / (inner.end - inner.panel);
    for (int64_t o = inner.panel; o < inner.end; ++o) {
      const int64_t p = shares_b() ? o : s, q = shares_b() ? s : o;
      const Ahead ahead{next + (o - inner.panel) * lines * 16, std::min(lines, chunk.depth / 4)};
      const int64_t row = a.begin(p) - a.begin(rows.panel), column = b.begin(q) - b.begin(columns.panel);
      PanelOperands in{.a = rows.data + row * chunk.depth,
                       .a_step = a.height(p),
                       .b = columns.data + column * chunk.depth,
                       .depth = chunk.depth,
                       .ahead = ahead};
      if (rows.in_place) in.a = rows.data + row * a.m.stride, in.a_step = 1, in.a_row = a.m.stride;
      multiply_panel_pair(chunk, p, q, in);
    }
  }
}

/// Panels [panel, end) of the own operand, packed into `memory` where that pays.
Panels Product::own_block(const Chunk& chunk, int64_t panel, int64_t end, float* memory) const {
  if (own().stays_in_place()) return {own().m.row<float>(own().begin(panel)) + chunk.k, panel, end, true};
  own().pack(panel, end, chunk.k, chunk.depth, memory);
  return {memory, panel, end};
}

void Product::multiply(const Chunk& chunk) const {
  const int64_t threads = ctx.pool.size(), wanted = kTasksAThread * threads, panels = own().panels();
  const int64_t wide = shares_b() ? kPanelRows : kPanelColumns;
  const int64_t most = std::max<int64_t>(1, kBlockElements / (chunk.depth * wide));
  const int64_t block = std::clamp(panels / wanted, std::min(kFewestPanels, most), most);
  int64_t blocks = ceil_div(panels, block);
  if (blocks > threads) blocks = std::min(panels, ceil_div(blocks, threads) * threads);  // equal shares
  const int64_t splits = std::clamp<int64_t>(ceil_div(wanted, blocks), 1, ceil_div(chunk.panels, 4));
  const int64_t block_size = ceil_div(block * wide * chunk.depth, 16) * 16;
  float* blocks_memory = scratch(ctx).get<float>(Slot::kGemm, block_size * ctx.pool.size());
  ctx.pool.parallel_for(blocks * splits, [&](int64_t task, int worker) {
    const int64_t panel = panels * (task % blocks) / blocks, end = panels * (task % blocks + 1) / blocks;
    const int64_t split = task / blocks, from = chunk.panel + chunk.panels * split / splits;
    const int64_t to = chunk.panel + chunk.panels * (split + 1) / splits;
    float* memory = blocks_memory + worker * block_size;
    const Panels mine = own_block(chunk, panel, end, memory);
    const Panels theirs{shared_memory + (shared().begin(from) - shared().begin(chunk.panel)) * chunk.depth, from, to};
    multiply_block(chunk, shares_b() ? mine : theirs, shares_b() ? theirs : mine);
  });
}

void Product::run(int64_t depth) {
  const int64_t part_depth = even_part(depth, kChunkDepth, 8);
  const int64_t panels = shared().panels(), widest = shares_b() ? kPanelColumns : kPanelRows;
  const int64_t part = even_part(panels, std::max<int64_t>(1, kSharedElements / (part_depth * widest)), 1);
  shared_memory = scratch(ctx).get<float>(Slot::kGemmPacked, part * widest * part_depth);
  if (args.c.dtype == DType::kF32)
    sums = args.c;
  else if (part_depth < depth)
    sums = mat(scratch(ctx).get<float>(Slot::kGemmSums, args.c.rows * args.c.cols), args.c.rows, args.c.cols);
  for (int64_t panel = 0; panel < panels; panel += part)
    for (int64_t k = 0; k < depth; k += part_depth) {
      const Chunk chunk{.k = k,
                        .depth = std::min(part_depth, depth - k),
                        .panel = panel,
                        .panels = std::min(part, panels - panel),
                        .first = k == 0,
                        .last = k + part_depth >= depth};
      pack_shared(chunk);
      multiply(chunk);
    }
}

/// Rows of pairs are read as 32-bit words.
bool packs_in_pairs(const ConstMat& m, bool lines_are_rows) {
  return m.dtype == DType::kBF16 &&
         (!lines_are_rows || (m.stride % 2 == 0 && reinterpret_cast<uintptr_t>(m.data) % 4 == 0));
}

void multiply(Context& ctx, const GemmArgs& args, int64_t depth) {
  const bool pairs = HWY_TARGET == HWY_AVX3 && packs_in_pairs(args.a, !args.a_transposed) &&
                     packs_in_pairs(args.b, args.b_transposed) && bf16_pairs_pay();
  Product{ctx, args, Operand::of_a(args, pairs), Operand::of_b(args, pairs)}.run(pairs ? (depth + 1) / 2 : depth);
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
  const int64_t a_rows = g.a_transposed ? g.a.cols : g.a.rows, depth_of_a = g.a_transposed ? g.a.rows : g.a.cols;
  const int64_t b_columns = g.b_transposed ? g.b.rows : g.b.cols, b_depth = g.b_transposed ? g.b.cols : g.b.rows;
  ESP_CHECK(depth_of_a == b_depth && a_rows == g.c.rows && b_columns == g.c.cols, "[{}, {}] . [{}, {}] into [{}, {}]",
            a_rows, depth_of_a, b_depth, b_columns, g.c.rows, g.c.cols);
  const auto is_float = [](DType dtype) { return dtype == DType::kF32 || dtype == DType::kBF16; };
  ESP_CHECK(is_float(g.a.dtype) && is_float(g.b.dtype) && is_float(g.c.dtype), "{} . {} into {}",
            dtype_name(g.a.dtype), dtype_name(g.b.dtype), dtype_name(g.c.dtype));
  ESP_CHECK(g.c.dtype == DType::kF32 || !g.accumulate, "accumulating into bf16");
  ESP_CHECK(g.bias.empty() || (g.bias.dtype == DType::kF32 && g.bias.cols == g.c.cols), "bias {} [{}] for {} columns",
            dtype_name(g.bias.dtype), g.bias.cols, g.c.cols);
  return depth_of_a;
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
