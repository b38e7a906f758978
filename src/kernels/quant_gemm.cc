// The quantised product: rounds activations once, then hands out panels to the threads. A few panels of one run are a
// task; the tiles of activations pass over them one after another, so that both stay in the caches.
#include "kernels/quant_gemm.h"

#include <algorithm>
#include <cstring>

#include "kernels/cache.h"
#include "kernels/entries.h"
#include "kernels/quant_rows.h"
#include "kernels/x86/quant_multiply.h"

namespace espalier {

void check_quant_args(const QuantGemmArgs& g) {
  int64_t rows = 0;
  for (const PanelRun& run : g.w) rows += run.rows;
  ESP_CHECK(g.x.cols % kQuantBlock == 0 && g.y.rows == g.x.rows && g.y.cols == rows,
            "[{}, {}] . [{}, {}]^T into [{}, {}]", g.x.rows, g.x.cols, rows, g.x.cols, g.y.rows, g.y.cols);
  ESP_CHECK(g.x.dtype == DType::kF32 && g.y.dtype == DType::kF32, "x {}, y {}", dtype_name(g.x.dtype),
            dtype_name(g.y.dtype));
}

namespace cpu {
namespace {

/// Weights of a task: enough to make handing it out cheap, little enough to stay in the second cache.
constexpr int64_t kTaskBytes = 96 << 10;

/// Some panels of one run.
struct Piece {
  const PanelRun* run;
  int64_t first, count;
  int64_t row;  ///< of Y's columns, where the run begins
};

/// Writes a tile's outputs of one panel: numbers[t * 16 + i] to row t of y.
void write_outputs(const QuantGemmArgs& g, const float* numbers, int64_t first_row, int rows, int64_t col,
                   int64_t count) {
  const float* bias = g.bias.empty() ? nullptr : g.bias.row<float>(0) + col;
  for (int t = 0; t < rows; ++t) {
    float* y = g.y.row<float>(first_row + t) + col;
    const float* from = numbers + t * kPanelRows;
    if (!bias) std::memcpy(y, from, size_t(count) * sizeof(float));
    else
      for (int64_t i = 0; i < count; ++i) y[i] = from[i] + bias[i];
  }
}

struct Product {
  const QuantGemmArgs& args;
  const QuantMultiply& multiply;
  const QuantRows& x;

  void run(const Piece& piece, std::byte* memory) const {
    const PanelRun& run = *piece.run;
    const int64_t bytes = panel_bytes(run.kind, args.x.cols);
    const std::byte* panels = run.panels ? run.panels + piece.first * bytes : memory;
    if (!run.panels)
      for (int64_t i = 0; i < piece.count; ++i) run.source->pack(piece.first + i, memory + i * bytes);
    alignas(64) float out[16 * kPanelRows];
    for (int64_t tile = 0; tile < x.tiles(); ++tile) {
      const QuantTile rows = x.tile(tile);
      for (int64_t i = 0; i < piece.count; ++i) {
        const int64_t col = (piece.first + i) * kPanelRows;
        multiply.panel(run.kind, panels + i * bytes, rows, out, args.x.cols);
        write_outputs(args, out, x.first_row(tile), rows.rows, piece.row + col,
                      std::min<int64_t>(kPanelRows, run.rows - col));
      }
    }
  }
};

/// The pieces of all runs, numbered one after another.
struct Pieces {
  const QuantGemmArgs& args;

  int64_t panels_each(const PanelRun& run) const {
    return std::max<int64_t>(1, kTaskBytes / panel_bytes(run.kind, args.x.cols));
  }
  int64_t count(const PanelRun& run) const { return (run.count() + panels_each(run) - 1) / panels_each(run); }
  int64_t count() const {
    int64_t all = 0;
    for (const PanelRun& run : args.w) all += count(run);
    return all;
  }
  Piece at(int64_t index) const {
    int64_t row = 0;
    for (const PanelRun& run : args.w) {
      if (index < count(run)) {
        const int64_t first = index * panels_each(run);
        return {&run, first, std::min(panels_each(run), run.count() - first), row};
      }
      index -= count(run);
      row += run.rows;
    }
    ESP_CHECK(false, "piece {} too many", index);
    return {};
  }
  /// Memory for the panels of a piece that are made as they are needed.
  int64_t packed_bytes() const {
    int64_t most = 0;
    for (const PanelRun& run : args.w)
      if (!run.panels) most = std::max(most, panels_each(run) * panel_bytes(run.kind, args.x.cols));
    return (most + 63) / 64 * 64;
  }
};

}  // namespace

void quant_gemm(Context& ctx, const QuantGemmArgs& g) {
  check_quant_args(g);
  if (g.x.rows == 0) return;
  static const bool vnni = has_vnni();
  const QuantMultiply& multiply = ctx.isa == Isa::kAvx3 && vnni ? kQuantVnni : kQuantAvx2;
  const QuantRows x(ctx, g.x, multiply.tile_rows);
  const Product product{g, multiply, x};
  const Pieces pieces{g};
  const int64_t packed = pieces.packed_bytes();
  std::byte* memory = packed > 0 ? scratch(ctx).get<std::byte>(Slot::kQuantPanels, packed * ctx.pool.size()) : nullptr;
  ctx.pool.parallel_for(pieces.count(), [&](int64_t task, int worker) {
    product.run(pieces.at(task), memory + worker * packed);
  });
}

}  // namespace cpu
}  // namespace espalier
