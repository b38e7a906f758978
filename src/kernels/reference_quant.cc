// The quantised product, plain: the oracle.
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/entries.h"
#include "kernels/quant_gemm.h"

namespace espalier::reference {
namespace {

float half(const std::byte* p) {
  f16 x;
  x.bits = uint16_t(uint16_t(p[0]) | uint16_t(p[1]) << 8);
  return float(x);
}

/// One row of a panel.
struct Row {
  const PanelFormat& format;
  const std::byte* panel;
  int row;

  /// Its number in a column of the block, without the zero.
  int q(const std::byte* block, int column) const {
    const int g = column / 4, byte = row * 4 + column % 4;
    const auto at = [&](int vector) { return int(block[vector * 64 + byte]); };
    const int bits = format.bits;
    if (bits == 8) return at(g) - format.zero;
    const int low = bits >= 4 ? at(g / 2) >> (g % 2 * 4) & 15 : at(g / 4) >> (g % 4 * 2) & 3;
    if (format.table) return int(kIQ4Levels[low]) - format.zero;
    const int high = bits == 5   ? (at(4) >> g & 1) << 4
                     : bits == 6 ? (at(4 + g / 4) >> (g % 4 * 2) & 3) << 4
                     : bits == 3 ? (at(2) >> g & 1) << 2
                                 : 0;
    return (low | high) - format.zero;
  }
  float scale(const std::byte* unit, int index) const {
    const std::byte* p = unit + format.scales_at();
    if (!format.super()) return half(p + 2 * (index * kPanelRows + row));
    const int raw = int(p[index * kPanelRows + row]);
    const float d = half(unit + format.super_at() + 2 * row);
    if (format.scales == ScaleForm::kSuperNibble) return d * float(raw & 15);
    return d * float(format.scales == ScaleForm::kSuper ? int(int8_t(raw)) : raw);
  }
  float minimum(const std::byte* unit, int index) const {
    if (!format.super()) return half(unit + format.minima_at() + 2 * (index * kPanelRows + row));
    const float dmin = half(unit + format.super_at() + 32 + 2 * row);
    if (format.scales == ScaleForm::kSuperNibble)
      return -dmin * float(int(unit[format.scales_at() + index * kPanelRows + row]) >> 4);
    return -dmin * float(int(unit[format.minima_at() + index * kPanelRows + row]));
  }
};

struct Block {
  float scale;
  std::array<int, kQuantBlock> q;
};

Block quantise(const float* x) {
  Block b{};
  float largest = 0;
  bool sound = true;
  for (int i = 0; i < kQuantBlock; ++i) {
    sound &= std::isfinite(x[i]);
    largest = std::max(largest, std::abs(x[i]));
  }
  if (!sound) return {std::numeric_limits<float>::quiet_NaN(), {}};
  b.scale = largest / 127;
  const float inverse = largest > 0 ? std::min(127 / largest, 0x1p126f) : 0;
  for (int i = 0; i < kQuantBlock; ++i) b.q[size_t(i)] = int(std::nearbyint(x[i] * inverse));
  return b;
}

float dot(const Row& row, const std::vector<Block>& x) {
  const PanelFormat& f = row.format;
  float y = 0;
  for (size_t b = 0; b < x.size(); ++b) {
    const std::byte* unit = row.panel + int64_t(b) / f.unit_blocks() * f.unit_bytes();
    const int in_unit = int(b) % f.unit_blocks();
    float part = 0;
    std::array<float, 2> sums{};
    for (int h = 0; h < f.halves; ++h) {
      int sum = 0, plain = 0;
      for (int i = h * kQuantBlock / f.halves; i < (h + 1) * kQuantBlock / f.halves; ++i) {
        sum += x[b].q[size_t(i)] * row.q(unit + in_unit * f.quant_bytes(), i);
        plain += x[b].q[size_t(i)];
      }
      const float scale = row.scale(unit, in_unit * f.halves + h);
      part = h == 0 ? float(sum) * scale : std::fma(float(sum), scale, part);
      sums[size_t(h)] = x[b].scale * float(plain);
    }
    y = std::fma(x[b].scale, part, y);
    for (int h = 0; f.minima() && h < f.halves; ++h)
      y = std::fma(row.minimum(unit, in_unit * f.halves + h), sums[size_t(h)], y);
  }
  return y;
}

}  // namespace

void quant_gemm(Context&, const QuantGemmArgs& g) {
  check_quant_args(g);
  for (int64_t i = 0; i < g.x.rows; ++i) {
    std::vector<Block> x;
    for (int64_t k = 0; k < g.x.cols; k += kQuantBlock) x.push_back(quantise(g.x.row<float>(i) + k));
    int64_t col = 0;
    for (const PanelRun& run : g.w) {
      const int64_t bytes = panel_bytes(run.kind, g.x.cols);
      std::vector<std::byte> made(static_cast<size_t>(bytes));
      for (int64_t r = 0; r < run.rows; ++r, ++col) {
        const int64_t panel = r / kPanelRows;
        if (!run.panels && r % kPanelRows == 0) run.source->pack(panel, made.data());
        const Row row{panel_format(run.kind), run.panels ? run.panels + panel * bytes : made.data(),
                      int(r % kPanelRows)};
        const float y = dot(row, x);
        g.y.row<float>(i)[col] = g.bias.empty() ? y : y + g.bias.row<float>(0)[col];
      }
    }
  }
}

}  // namespace espalier::reference
