// The product of two packed panels, in registers: the innermost loop of matrix products and of attention.
//   c[i][j] (+)= sum over k of a[k * a_step + i] * b[k * kPanelColumns + j]      0 <= i < rows, 0 <= j < kPanelColumns
// The sums of rows x kPanelColumns outputs stay in registers for the whole depth; each step of depth reads two vectors
// of b and broadcasts `rows` numbers of a (van Zee, van de Geijn 2015, BLIS).
#if defined(ESPALIER_KERNELS_PANELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ESPALIER_KERNELS_PANELS_INL_H_
#undef ESPALIER_KERNELS_PANELS_INL_H_
#else
#define ESPALIER_KERNELS_PANELS_INL_H_
#endif

#include <algorithm>
#include <utility>

#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace espalier {
namespace HWY_NAMESPACE {

constexpr int64_t kPanelColumns = 2 * kLanes;
/// As many as leave registers for b and one broadcast: 2 * 14 + 3 of 32, or 2 * 6 + 3 of 16.
constexpr int64_t kPanelRows = HWY_TARGET == HWY_AVX2 ? 6 : 14;

/// Memory that the next product will read, brought closer meanwhile: the stream from the third-level cache or memory
/// hides behind the arithmetic.
struct Ahead {
  const float* data = nullptr;
  int64_t lines = 0;  ///< of 64 bytes, at most depth / 4
};

/// What is multiplied.
struct PanelOperands {
  const float* a;
  int64_t a_step;  ///< from one step of depth to the next: the height of a packed panel, the row of a plain matrix
  const float* b;  ///< 64-byte aligned
  int64_t depth;
  Ahead ahead = {};
  int64_t a_row = 1;  ///< from one row to the next: 1 in a packed panel
};

/// Where the product goes.
struct PanelOutput {
  float* c;
  int64_t stride;
  int64_t columns = kPanelColumns;  ///< written, at most kPanelColumns
  bool accumulate = false;          ///< adds to c
  const float* bias = nullptr;      ///< [columns], added
};

template <class Lanes>
HWY_INLINE void write_sums(float* c, V sum, int64_t j, const PanelOutput& out, Lanes lanes) {
  if (out.accumulate) sum = hn::Add(sum, load(c, lanes));
  if (out.bias) sum = hn::Add(sum, load(out.bias + j, lanes));
  store(c, sum, lanes);
}

/// kApart: rows of a are in.a_row apart and each is contiguous in depth (a_step 1).
template <int kRows, bool kApart>
HWY_NOINLINE void multiply_panels(const PanelOperands& in, const PanelOutput& out) {
  V left[kRows], right[kRows];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    left[i] = right[i] = hn::Zero(F32());
    __builtin_prefetch(out.c + i * out.stride);
    __builtin_prefetch(out.c + i * out.stride + out.columns - 1);
  }
  const float *HWY_RESTRICT a = in.a, *HWY_RESTRICT b = in.b;
  const int64_t row = in.a_row;
  const float* every_third[kRows / 3 + 1];  // row; the next two are at offsets that one addressing mode can give
  for (int i = 0; kApart && i < kRows; i += 3) every_third[i / 3] = a + i * row;
  const int64_t a_step = in.a_step, depth = in.depth;
  const Ahead ahead = in.ahead;
  for (int64_t k = 0; k < depth; ++k) {
    const V b0 = hn::Load(F32(), b), b1 = hn::Load(F32(), b + kLanes);
    if (!kApart) __builtin_prefetch(a + 16 * a_step);
    if (k % 4 == 0 && k < 4 * ahead.lines) __builtin_prefetch(ahead.data + 4 * k, 0, 2);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const V x = hn::Set(F32(), kApart ? every_third[i / 3][i % 3 * row] : a[i]);
      left[i] = hn::MulAdd(x, b0, left[i]);
      right[i] = hn::MulAdd(x, b1, right[i]);
    }
    if (kApart) {
#pragma GCC unroll 16
      for (int i = 0; i < kRows; i += 3) ++every_third[i / 3];
    }
    a += a_step;
    b += kPanelColumns;
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    float* c = out.c + i * out.stride;
    if (out.columns == kPanelColumns) {
      write_sums(c, left[i], 0, out, Whole());
      write_sums(c + kLanes, right[i], kLanes, out, Whole());
    } else {
      write_sums(c, left[i], 0, out, Tail{size_t(std::min(kLanes, out.columns))});
      if (out.columns > kLanes) write_sums(c + kLanes, right[i], kLanes, out, Tail{size_t(out.columns - kLanes)});
    }
  }
}

using PanelProduct = void (*)(const PanelOperands&, const PanelOutput&);

template <bool kApart, int... kIndex>
constexpr std::array<PanelProduct, sizeof...(kIndex)> panel_products(std::integer_sequence<int, kIndex...>) {
  return {multiply_panels<kIndex + 1, kApart>...};
}

/// The product for `rows` rows, 1 ... kPanelRows.
HWY_INLINE void multiply_panels(int64_t rows, const PanelOperands& in, const PanelOutput& out) {
  constexpr auto kHeights = std::make_integer_sequence<int, int(kPanelRows)>();
  static constexpr auto kTogether = panel_products<false>(kHeights), kApart = panel_products<true>(kHeights);
  (in.a_row == 1 ? kTogether : kApart)[size_t(rows - 1)](in, out);
}

/// `lines` rows of an operand in panels of nearly equal height, at most kPanelRows: no panel is padded.
struct RowPanels {
  int64_t lines, count = (lines + kPanelRows - 1) / kPanelRows;
  int64_t begin(int64_t panel) const { return panel * (lines / count) + std::min(panel, lines % count); }
  int64_t height(int64_t panel) const { return begin(panel + 1) - begin(panel); }
};

}  // namespace HWY_NAMESPACE
}  // namespace espalier
HWY_AFTER_NAMESPACE();
#endif  // per target
