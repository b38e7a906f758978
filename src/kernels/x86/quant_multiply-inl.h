// The product of one panel (kernels/quant_panels.h) with the rows of a tile (kernels/quant_rows.h), written once for
// AVX-512 with VNNI and for AVX2: the file that includes this has named its instructions in `Ops` and pushed its target
// attributes. The order of sums is that of kernels/quant_gemm.h.
//
// Ops has
//   I, F                      vectors of 32-bit integers (or of bytes) and of floats; kLanes of them
//   load, load_bytes...       see quant_vnni.cc
//   kSigned                   whether 8-bit numbers are multiplied with their sign, so that they need no zero
//   Sum<kBits>                sums of products, four columns at a time
#include <utility>

/// What a format's numbers become: unsigned as stored, or with their sign where Ops wants 8-bit numbers so.
template <PanelKind kKind>
struct Numbers {
  static constexpr PanelFormat kFormat = panel_format(kKind);
  static constexpr int kBits = kFormat.table ? 8 : kFormat.bits;
  static constexpr int kZero = Ops::kSigned && kBits == 8 ? 0 : kFormat.zero;
  static constexpr bool kFlip = Ops::kSigned && kBits == 8;

  /// Group g of the block at p, `lane` bytes into each vector.
  template <int g>
  static HWY_INLINE Ops::I get(const std::byte* p, int lane) {
    constexpr int b = kFormat.bits;
    if constexpr (b == 8) {
      return flip(Ops::load(p + 64 * g + lane));
    } else if constexpr (b >= 4) {
      typename Ops::I q = Ops::load(p + 64 * (g / 2) + lane);
      q = Ops::mask(g % 2 ? Ops::template shift_right<4>(q) : q, 15);
      if constexpr (kFormat.table) return flip(Ops::look_up(q));
      if constexpr (b == 5) return Ops::template add_bits<g, 4, 0x10>(q, Ops::load(p + 256 + lane));
      if constexpr (b == 6)
        return Ops::template add_bits<2 * (g % 4), 4, 0x30>(q, Ops::load(p + 256 + 64 * (g / 4) + lane));
      return q;
    } else {
      const typename Ops::I two = Ops::load(p + 64 * (g / 4) + lane);
      const typename Ops::I q = Ops::mask(Ops::template shift_right<2 * (g % 4)>(two), 3);
      if constexpr (b == 3) return Ops::template add_bits<g, 2, 4>(q, Ops::load(p + 128 + lane));
      return q;
    }
  }
  static HWY_INLINE Ops::I flip(Ops::I q) { return kFlip ? Ops::flip_sign(q) : q; }
};

/// Scales and minima of one block (and half) of a panel, as floats, for kLanes rows from `row` on.
template <PanelKind kKind>
struct Scales {
  static constexpr PanelFormat kFormat = panel_format(kKind);
  using F = typename Ops::F;
  const std::byte* unit;
  int row;
  F d, dmin;

  HWY_INLINE Scales(const std::byte* at, int first_row) : unit(at), row(first_row) {
    if constexpr (kFormat.super()) d = Ops::load_half(unit + kFormat.super_at() + 2 * row);
    if constexpr (kFormat.super() && kFormat.minima()) dmin = Ops::load_half(unit + kFormat.super_at() + 32 + 2 * row);
  }
  HWY_INLINE F scale(int index) const {
    const std::byte* p = unit + kFormat.scales_at();
    if constexpr (!kFormat.super()) return Ops::load_half(p + 2 * (kPanelRows * index + row));
    if constexpr (kFormat.scales == ScaleForm::kSuperNibble)
      return Ops::mul(d, Ops::load_low_nibbles(p + kPanelRows * index + row));
    p += kPanelRows * index + row;
    return Ops::mul(d, kFormat.scales == ScaleForm::kSuperMin ? Ops::load_u8(p) : Ops::load_i8(p));
  }
  /// What is added times the sum of the activations.
  HWY_INLINE F minimum(int index) const {
    const std::byte* p = unit + kFormat.minima_at();
    if constexpr (!kFormat.super()) return Ops::load_half(p + 2 * (kPanelRows * index + row));
    if constexpr (kFormat.scales == ScaleForm::kSuperNibble)
      return Ops::mul(dmin, Ops::load_high_nibbles(unit + kFormat.scales_at() + kPanelRows * index + row));
    return Ops::mul(dmin, Ops::load_u8(p + kPanelRows * index + row));
  }
};

/// y[t][lane] of kRows rows of the tile and kLanes rows of the panel.
template <PanelKind kKind, int kRows>
struct Multiply {
  using Q = Numbers<kKind>;
  using I = typename Ops::I;
  using F = typename Ops::F;
  static constexpr PanelFormat kFormat = panel_format(kKind);
  static constexpr int kHalves = kFormat.halves, kGroups = 8 / kHalves;

  /// Adds a group's products to the sums of all rows.
  template <int g, class Sums>
  static HWY_INLINE void add_group(const std::byte* p, const int8_t* x, int lane, Sums* sums) {
    const I w = Q::template get<g>(p, lane);
    const auto prepared = Ops::template prepare<Q::kBits>(w);
#pragma GCC unroll 16
    for (int t = 0; t < kRows; ++t) sums[t].template add<g % kGroups>(prepared, x + kQuantBlock * t + 4 * g);
  }

  template <int kHalf, class Sums, int... g>
  static HWY_INLINE void add_half(const std::byte* p, const int8_t* x, int lane, Sums* sums,
                                  std::integer_sequence<int, g...>) {
    (add_group<kHalf * kGroups + g>(p, x, lane, sums), ...);
  }

  /// float(sum of q' x) of one half for all rows.
  template <int kHalf>
  static HWY_INLINE void sum_half(const std::byte* p, const int8_t* x, const int32_t* offsets, int lane, F* out) {
    typename Ops::template Sum<Q::kBits, kGroups> sums[kRows];
#pragma GCC unroll 16
    for (int t = 0; t < kRows; ++t) sums[t].template start<Q::kZero>(offsets + t);
    add_half<kHalf>(p, x, lane, sums, std::make_integer_sequence<int, kGroups>());
#pragma GCC unroll 16
    for (int t = 0; t < kRows; ++t) out[t] = Ops::to_float(sums[t].total());
  }

  static HWY_INLINE void add_block(const Scales<kKind>& scales, int in_unit, const QuantTile& x, int64_t block,
                                   F* y) {
    const std::byte* p = scales.unit + in_unit * kFormat.quant_bytes();
    const int lane = scales.row * 4;
    const int8_t* q = x.q + block * kRows * kQuantBlock;
    F dots[kRows];
    sum_half<0>(p, q, (kHalves == 2 ? x.half_sums + 2 * block * kRows : x.sums + block * kRows), lane, dots);
    const F scale = scales.scale(in_unit * kHalves);
#pragma GCC unroll 16
    for (int t = 0; t < kRows; ++t) dots[t] = Ops::mul(dots[t], scale);
    if constexpr (kHalves == 2) {
      F second[kRows];
      sum_half<1>(p, q, x.half_sums + (2 * block + 1) * kRows, lane, second);
      const F next = scales.scale(in_unit * kHalves + 1);
#pragma GCC unroll 16
      for (int t = 0; t < kRows; ++t) dots[t] = Ops::fma(second[t], next, dots[t]);
    }
#pragma GCC unroll 16
    for (int t = 0; t < kRows; ++t) y[t] = Ops::fma(Ops::spread(x.scales + block * kRows + t), dots[t], y[t]);
    if constexpr (kFormat.minima()) add_minima(scales, in_unit, x, block, y);
  }

  static HWY_INLINE void add_minima(const Scales<kKind>& scales, int in_unit, const QuantTile& x, int64_t block,
                                    F* y) {
#pragma GCC unroll 2
    for (int h = 0; h < kHalves; ++h) {
      const F minimum = scales.minimum(in_unit * kHalves + h);
      const float* sums = kHalves == 2 ? x.half_minima + (2 * block + h) * kRows : x.minima + block * kRows;
#pragma GCC unroll 16
      for (int t = 0; t < kRows; ++t)
        y[t] = kFormat.super() ? Ops::negative_fma(minimum, Ops::spread(sums + t), y[t])
                               : Ops::fma(minimum, Ops::spread(sums + t), y[t]);
    }
  }

  static void run(const std::byte* panel, int64_t units, const QuantTile& x, float* out) {
    for (int row = 0; row < kPanelRows; row += Ops::kLanes) {
      F y[kRows];
#pragma GCC unroll 16
      for (int t = 0; t < kRows; ++t) y[t] = Ops::zero();
      const std::byte* unit = panel;
      for (int64_t u = 0; u < units; ++u, unit += kFormat.unit_bytes()) {
        const Scales<kKind> scales(unit, row);
        for (int b = 0; b < kFormat.unit_blocks(); ++b) {
          prefetch(unit, b);
          add_block(scales, b, x, u * kFormat.unit_blocks() + b, y);
        }
      }
#pragma GCC unroll 16
      for (int t = 0; t < kRows; ++t) Ops::store(out + kPanelRows * t + row, y[t]);
    }
  }

  /// Weights come from memory as fast as it gives them when they are asked for some KB ahead.
  static HWY_INLINE void prefetch(const std::byte* unit, int b) {
    constexpr int kAhead = 8192, kLines = kFormat.unit_bytes() / 64;
    constexpr int kShare = (kLines + kFormat.unit_blocks() - 1) / kFormat.unit_blocks();
#pragma GCC unroll 16
    for (int i = 0; i < kShare; ++i) __builtin_prefetch(unit + kAhead + 64 * (b * kShare + i), 0, 2);
  }
};

using MultiplyPanel = void (*)(const std::byte*, int64_t, const QuantTile&, float*);

template <int kRows, int... kKind>
constexpr std::array<MultiplyPanel, sizeof...(kKind)> for_kinds(std::integer_sequence<int, kKind...>) {
  return {Multiply<PanelKind(kKind), kRows>::run...};
}

/// [rows - 1][kind]
template <int... kRows>
constexpr auto multiply_table(std::integer_sequence<int, kRows...>) {
  using Kinds = std::make_integer_sequence<int, int(PanelKind::kCount)>;
  return std::array{for_kinds<kRows + 1>(Kinds())...};
}

inline void multiply_by_table(PanelKind kind, const std::byte* panel, const QuantTile& x, float* out, int64_t cols) {
  static constexpr auto kTable = multiply_table(std::make_integer_sequence<int, Ops::kTileRows>());
  const PanelFormat& format = panel_format(kind);
  const int64_t unit = format.unit_blocks() * kQuantBlock;
  kTable[size_t(x.rows - 1)][size_t(kind)](panel, (cols + unit - 1) / unit, x, out);
}
