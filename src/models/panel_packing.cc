#include "models/panel_packing.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "formats/gguf_layouts.h"

namespace espalier {
namespace {

using namespace gguf_layouts;

/// One row of one unit, taken apart.
struct UnitRow {
  alignas(64) uint8_t q[256];
  uint16_t half[2], half_min[2];    // of units of 64
  int8_t scale[16];                 // of units of 256
  uint8_t least[16];
  uint16_t d, dmin;
};

// Each type's numbers in the order of the columns, without sign.

void numbers(const Q8_0& b, uint8_t* q) {
  for (int i = 0; i < 32; ++i) q[i] = uint8_t(b.qs[i] + 128);
}

/// Bytes whose lower halves are the first 16 numbers and whose upper halves are the others.
void split_nibbles(const uint8_t* bytes, int count, uint8_t* low, uint8_t* high) {
  for (int i = 0; i < count; ++i) low[i] = bytes[i] & 15;
  for (int i = 0; i < count; ++i) high[i] = bytes[i] >> 4;
}

template <class Block>
  requires std::is_same_v<Block, Q4_0> || std::is_same_v<Block, Q4_1> || std::is_same_v<Block, IQ4_NL>
void numbers(const Block& b, uint8_t* q) {
  split_nibbles(b.qs, 16, q, q + 16);
}

template <class Block>
  requires std::is_same_v<Block, Q5_0> || std::is_same_v<Block, Q5_1>
void numbers(const Block& b, uint8_t* q) {
  split_nibbles(b.qs, 16, q, q + 16);
  for (int i = 0; i < 32; ++i) q[i] |= uint8_t((b.qh[i / 8] >> (i % 8) & 1) << 4);
}

void numbers(const Q2_K& b, uint8_t* q) {
  for (int s = 0; s < 8; ++s)
    for (int i = 0; i < 32; ++i) q[32 * s + i] = b.qs[s / 4 * 32 + i] >> (s % 4 * 2) & 3;
}

void numbers(const Q3_K& b, uint8_t* q) {
  for (int s = 0; s < 8; ++s)
    for (int i = 0; i < 32; ++i)
      q[32 * s + i] = uint8_t((b.qs[s / 4 * 32 + i] >> (s % 4 * 2) & 3) | (b.hmask[i] >> s & 1) << 2);
}

void numbers(const Q4_K& b, uint8_t* q) {
  for (int s = 0; s < 4; ++s) split_nibbles(b.qs + 32 * s, 32, q + 64 * s, q + 64 * s + 32);
}

void numbers(const Q5_K& b, uint8_t* q) {
  for (int s = 0; s < 4; ++s) split_nibbles(b.qs + 32 * s, 32, q + 64 * s, q + 64 * s + 32);
  for (int s = 0; s < 8; ++s)
    for (int i = 0; i < 32; ++i) q[32 * s + i] |= uint8_t((b.qh[i] >> s & 1) << 4);
}

void numbers(const Q6_K& b, uint8_t* q) {
  for (int s = 0; s < 8; ++s) {  // of 128 numbers, which share 64 bytes of ql and 32 of qh
    const uint8_t *low = b.ql + s / 4 * 64 + s % 2 * 32, *high = b.qh + s / 4 * 32;
    const int low_shift = s % 4 / 2 * 4, high_shift = s % 4 * 2;
    for (int i = 0; i < 32; ++i)
      q[32 * s + i] = uint8_t((low[i] >> low_shift & 15) | (high[i] >> high_shift & 3) << 4);
  }
}

void numbers(const IQ4_XS& b, uint8_t* q) {
  for (int s = 0; s < 8; ++s) split_nibbles(b.qs + 16 * s, 16, q + 32 * s, q + 32 * s + 16);
}

// Each type's scales, block `index` of the unit.

template <class Block>
void scales(const Block& b, int index, UnitRow& row) {
  row.half[index] = b.d.bits();
  if constexpr (requires { b.m; }) row.half_min[index] = b.m.bits();
}

void scales(const Q2_K& b, int, UnitRow& row) {
  std::memcpy(row.scale, b.scales, sizeof b.scales);
  row.d = b.d.bits();
  row.dmin = b.dmin.bits();
}

void scales(const Q3_K& b, int, UnitRow& row) {
  for (int s = 0; s < 16; ++s) row.scale[s] = int8_t(scale_of(b, s));
  row.d = b.d.bits();
}

template <class Block>
  requires std::is_same_v<Block, Q4_K> || std::is_same_v<Block, Q5_K>
void scales(const Block& b, int, UnitRow& row) {
  for (int s = 0; s < 8; ++s) {
    const ScaleMin f = scale_min(b.scales, s);
    row.scale[s] = int8_t(f.scale);
    row.least[s] = uint8_t(f.least);
  }
  row.d = b.d.bits();
  row.dmin = b.dmin.bits();
}

void scales(const Q6_K& b, int, UnitRow& row) {
  std::memcpy(row.scale, b.scales, sizeof b.scales);
  row.d = b.d.bits();
}

void scales(const IQ4_XS& b, int, UnitRow& row) {
  for (int s = 0; s < 8; ++s) row.scale[s] = int8_t(scale_of(b, s));
  row.d = b.d.bits();
}

/// Four columns of 16 rows: the bytes of one vector.
using Words = std::array<uint32_t, kPanelRows>;

/// Joins field `g` of every byte, shifted down by `from`, into a plane of `bits` bits.
void join(Words& plane, const Words& words, int from, int bits, int to) {
  const uint32_t mask = ((1u << bits) - 1) * 0x01010101u;
  for (int r = 0; r < kPanelRows; ++r) plane[size_t(r)] |= (words[size_t(r)] >> from & mask) << to;
}

/// The quants of one block of 32 columns.
void pack_block(const PanelFormat& f, const std::array<Words, 8>& w, std::byte* out) {
  std::array<Words, 8> planes{};
  const int bits = f.bits;
  if (bits == 8) {
    planes = w;
  } else if (bits >= 4) {
    for (int g = 0; g < 8; ++g) join(planes[size_t(g / 2)], w[size_t(g)], 0, 4, g % 2 * 4);
    for (int g = 0; g < 8 && bits == 5; ++g) join(planes[4], w[size_t(g)], 4, 1, g);
    for (int g = 0; g < 8 && bits == 6; ++g) join(planes[size_t(4 + g / 4)], w[size_t(g)], 4, 2, g % 4 * 2);
  } else {
    for (int g = 0; g < 8; ++g) join(planes[size_t(g / 4)], w[size_t(g)], 0, 2, g % 4 * 2);
    for (int g = 0; g < 8 && bits == 3; ++g) join(planes[2], w[size_t(g)], 2, 1, g);
  }
  std::memcpy(out, planes.data(), size_t(f.quant_bytes()));
}

void put_half(std::byte* out, uint16_t bits) { std::memcpy(out, &bits, 2); }

void pack_scales(const PanelFormat& f, std::span<const UnitRow, kPanelRows> rows, std::byte* unit) {
  for (int r = 0; r < kPanelRows; ++r) {
    const UnitRow& row = rows[size_t(r)];
    if (!f.super()) {
      for (int b = 0; b < 2; ++b) {
        put_half(unit + f.scales_at() + 2 * (b * kPanelRows + r), row.half[b]);
        if (f.minima()) put_half(unit + f.minima_at() + 2 * (b * kPanelRows + r), row.half_min[b]);
      }
      continue;
    }
    for (int b = 0; b < 8 * f.halves; ++b) {
      unit[f.scales_at() + b * kPanelRows + r] = std::byte(row.scale[b]);
      if (f.scales == ScaleForm::kSuperMin) unit[f.minima_at() + b * kPanelRows + r] = std::byte(row.least[b]);
    }
    put_half(unit + f.super_at() + 2 * r, row.d);
    if (f.minima()) put_half(unit + f.super_at() + 32 + 2 * r, row.dmin);
  }
}

bool finite_half(uint16_t bits) { return (bits & 0x7C00) != 0x7C00; }

/// The unit's part of one row: its numbers and scales. False where one of these is not finite.
template <class Block>
bool take_apart(const Block* blocks, int count, UnitRow& row) {
  constexpr int kElements = sizeof(Block) > 40 ? 256 : 32;
  if (kElements == 32 && count == 1) {
    std::memset(row.q + kElements, 0, kElements);
    row.half[1] = row.half_min[1] = 0;
  }
  for (int i = 0; i < count; ++i) {
    numbers(blocks[i], row.q + i * kElements);
    scales(blocks[i], i, row);
  }
  return finite_half(row.half[0]) && finite_half(row.half[1]) && finite_half(row.half_min[0]) &&
         finite_half(row.half_min[1]) && finite_half(row.d) && finite_half(row.dmin);
}

template <class Block>
bool pack(PanelKind kind, std::span<const std::byte* const, kPanelRows> rows, int64_t cols, std::byte* out) {
  const PanelFormat f = panel_format(kind);
  const int unit_cols = f.unit_blocks() * kQuantBlock;
  const int64_t block_cols = f.super() ? 256 : 32, per_unit = unit_cols / block_cols, blocks = cols / block_cols;
  std::array<UnitRow, kPanelRows> unit{};
  bool sound = true;
  for (int64_t at = 0; at < blocks; at += per_unit, out += f.unit_bytes()) {
    for (size_t r = 0; r < kPanelRows; ++r)
      if (rows[r])
        sound &= take_apart(reinterpret_cast<const Block*>(rows[r]) + at, int(std::min(per_unit, blocks - at)),
                            unit[r]);
    std::memset(out + f.scales_at(), 0, size_t(f.unit_bytes() - f.scales_at()));
    for (int b = 0; b < f.unit_blocks(); ++b) {
      std::array<Words, 8> words;
      for (size_t r = 0; r < kPanelRows; ++r)
        for (size_t g = 0; g < 8; ++g) std::memcpy(&words[g][r], unit[r].q + kQuantBlock * b + 4 * int(g), 4);
      pack_block(f, words, out + b * f.quant_bytes());
    }
    pack_scales(f, unit, out);
  }
  return sound;
}

struct Packer {
  GgmlType type;
  bool (*pack)(PanelKind, std::span<const std::byte* const, kPanelRows>, int64_t, std::byte*);
};

/// In the order of PanelKind.
constexpr Packer kPackers[] = {
    {GgmlType::kQ8_0, pack<Q8_0>},    {GgmlType::kQ4_0, pack<Q4_0>}, {GgmlType::kQ4_1, pack<Q4_1>},
    {GgmlType::kQ5_0, pack<Q5_0>},    {GgmlType::kQ5_1, pack<Q5_1>}, {GgmlType::kIQ4_NL, pack<IQ4_NL>},
    {GgmlType::kQ2_K, pack<Q2_K>},    {GgmlType::kQ3_K, pack<Q3_K>}, {GgmlType::kQ4_K, pack<Q4_K>},
    {GgmlType::kQ5_K, pack<Q5_K>},    {GgmlType::kQ6_K, pack<Q6_K>}, {GgmlType::kIQ4_XS, pack<IQ4_XS>},
};

}  // namespace

std::optional<PanelKind> panel_kind(GgmlType type) {
  for (size_t i = 0; i < std::size(kPackers); ++i)
    if (kPackers[i].type == type) return PanelKind(i);
  return std::nullopt;
}

bool pack_panel(GgmlType type, std::span<const std::byte* const, kPanelRows> rows, int64_t cols, std::byte* out) {
  const std::optional<PanelKind> kind = panel_kind(type);
  ESP_CHECK(kind, "type {}", ggml_type_name(type));
  return kPackers[size_t(*kind)].pack(*kind, rows, cols, out);
}

}  // namespace espalier
