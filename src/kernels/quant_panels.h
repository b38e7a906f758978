// Quantised weights as products read them: the numbers of GGUF's blocks, bit for bit, in another order. Sixteen rows
// make a panel, in which the bytes of four neighbouring columns of each row stand beside those of the other rows: 64
// bytes, one vector of AVX-512 or two of AVX2, for which an activation's four bytes are spread over all lanes.
//
// A panel is a sequence of units of 64 columns (types with f16 scales) or 256 (K types), each
//   quants: for every 32 columns, as groups g = 0..7 of four columns (64 bytes each where a number is 8 bits):
//     8 bits  8 vectors, one a group
//     4 bits  4 vectors: the lower half of each byte is group 2i, the upper group 2i + 1
//     5 bits  those 4, then one vector whose bit g of each byte is the fifth bit of group g
//     6 bits  those 4, then two vectors: bits 2(g % 4) of vector g / 4 are the upper two bits of group g
//     2 bits  2 vectors: bits 2(g % 4) of vector g / 4 are group g
//     3 bits  those 2, then one vector whose bit g is the third bit of group g
//   scales: [32-column block][16 rows], in this order and where the type has them:
//     f16 scales, f16 minima          units of 64
//     i8 scales, u8 minima, f16 d, f16 dmin, zeros up to a multiple of 64 bytes           units of 256
// Numbers are stored without sign: a number is scale * (q - zero) + minimum. K types have one scale for 32 or for 16
// columns; scale and minimum are then d * scale and -dmin * minimum, products that f32 holds exactly.
// A last unit that is not full ends in zeros, and so do the rows of a last panel.
#pragma once
#include <cstddef>
#include <cstdint>

namespace espalier {

enum class PanelKind : uint8_t {
  kQ8_0, kQ4_0, kQ4_1, kQ5_0, kQ5_1, kIQ4_NL, kQ2_K, kQ3_K, kQ4_K, kQ5_K, kQ6_K, kIQ4_XS, kCount
};

constexpr int kPanelRows = 16;
constexpr int kQuantBlock = 32;  ///< columns that share an activation's scale

/// How a unit stores scales.
enum class ScaleForm : uint8_t {
  kHalf,         ///< f16
  kHalfMin,      ///< f16, and an f16 minimum
  kSuper,        ///< i8 times d
  kSuperMin,     ///< u8 times d, and a u8 minimum times dmin
  kSuperNibble,  ///< the same in the lower and upper half of one byte
};

struct PanelFormat {
  int bits;     ///< of a number; 4 with a table gives 8
  bool table;   ///< numbers are looked up in kIQ4Levels
  int zero;     ///< what stands for 0: 0 or a power of two
  int halves;   ///< scales for 32 columns
  ScaleForm scales;

  constexpr bool super() const { return scales != ScaleForm::kHalf && scales != ScaleForm::kHalfMin; }
  constexpr bool minima() const {
    return scales == ScaleForm::kHalfMin || scales == ScaleForm::kSuperMin || scales == ScaleForm::kSuperNibble;
  }
  constexpr int unit_blocks() const { return super() ? 8 : 2; }
  constexpr int quant_bytes() const { return bits * 64; }  ///< of 32 columns
  /// Where scales (in units of 256 then minima, then d and dmin) begin.
  constexpr int scales_at() const { return unit_blocks() * quant_bytes(); }
  constexpr int scale_bytes() const { return unit_blocks() * halves * kPanelRows * (super() ? 1 : 2); }
  constexpr int minima_at() const { return scales_at() + scale_bytes(); }
  constexpr int super_at() const {
    return minima_at() + (scales == ScaleForm::kSuperMin ? scale_bytes() : 0);
  }
  constexpr int unit_bytes() const {
    const int end = super() ? super_at() + kPanelRows * (minima() ? 4 : 2)
                            : minima_at() + (minima() ? scale_bytes() : 0);
    return (end + 63) / 64 * 64;
  }
};

constexpr PanelFormat kPanelFormats[] = {
    {8, false, 128, 1, ScaleForm::kHalf},      {4, false, 8, 1, ScaleForm::kHalf},
    {4, false, 0, 1, ScaleForm::kHalfMin},     {5, false, 16, 1, ScaleForm::kHalf},
    {5, false, 0, 1, ScaleForm::kHalfMin},     {4, true, 128, 1, ScaleForm::kHalf},
    {2, false, 0, 2, ScaleForm::kSuperNibble}, {3, false, 4, 2, ScaleForm::kSuper},
    {4, false, 0, 1, ScaleForm::kSuperMin},    {5, false, 0, 1, ScaleForm::kSuperMin},
    {6, false, 32, 2, ScaleForm::kSuper},      {4, true, 128, 1, ScaleForm::kSuper},
};
constexpr const PanelFormat& panel_format(PanelKind kind) { return kPanelFormats[size_t(kind)]; }

/// Levels of the IQ4 types, plus 128 so that they are unsigned.
constexpr uint8_t kIQ4Levels[16] = {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241};

/// Bytes of a panel of so many columns, a multiple of 32.
constexpr int64_t panel_bytes(PanelKind kind, int64_t cols) {
  const PanelFormat& f = panel_format(kind);
  const int64_t unit = f.unit_blocks() * kQuantBlock;
  return (cols + unit - 1) / unit * f.unit_bytes();
}

/// Makes panels when they are wanted, for weights that stay as they are in their file.
class PanelSource {
 public:
  virtual ~PanelSource() = default;
  /// Writes panel `index`, panel_bytes of it.
  virtual void pack(int64_t index, std::byte* out) const = 0;
};

/// Some rows of a weight, all of one type. Padded with zeros to whole panels.
struct PanelRun {
  PanelKind kind = PanelKind::kQ8_0;
  int64_t rows = 0;
  const std::byte* panels = nullptr;    ///< 64-byte aligned; or null, and
  const PanelSource* source = nullptr;  ///< they are made as they are needed

  int64_t count() const { return (rows + kPanelRows - 1) / kPanelRows; }
};

}  // namespace espalier
