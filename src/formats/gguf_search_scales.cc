// Q3_K, Q6_K and IQ4_NL: x = scale level, with levels of both signs, one more below zero than above it. A scale may be
// negative, so that the largest number of either sign can have the lowest level.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "formats/gguf_lanes.h"
#include "formats/gguf_layouts.h"
#include "formats/gguf_search.h"

namespace espalier {
namespace {

using namespace gguf_lanes;
using namespace gguf_layouts;

/// The integers of [lowest, highest].
struct Steps {
  float lowest, highest;
  float step = 1;       ///< between levels at the ends
  int candidates = 10;  ///< of the search, on either side
  Lanes operator()(Lanes x) const { return round(clamp(x, lowest, highest)); }
};

/// The sixteen levels of the IQ4 types. The borders between them are halves, so that a table in steps of one half says
/// which is the nearest.
struct Uneven {
  float lowest = kLevels[0], highest = kLevels[15];
  float step = 20;
  int candidates = 6;  // which cost three times as much here

  Lanes operator()(Lanes x) const {
    const IntLanes at = place_of(x);
    return Lanes{kNearest[at[0]].level, kNearest[at[1]].level, kNearest[at[2]].level, kNearest[at[3]].level};
  }
  IntLanes indices(Lanes x) const {
    const IntLanes at = place_of(x);
    return IntLanes{kNearest[at[0]].index, kNearest[at[1]].index, kNearest[at[2]].index, kNearest[at[3]].index};
  }

 private:
  struct Nearest {
    float level;
    int index;
  };
  static constexpr int kHalves = 2 * (kLevels[15] - kLevels[0]) + 1;
  struct Table {
    Nearest at[kHalves];
    constexpr const Nearest& operator[](int place) const { return at[place]; }
  };

  IntLanes place_of(Lanes x) const {
    return whole(round(clamp(2 * x - 0.5f, 2 * lowest, 2 * highest)) - 2 * lowest);
  }

  static constexpr Table kNearest = [] {
    Table table{};
    for (int place = 0, index = 0; place < kHalves; ++place) {
      while (index < 15 && place + 2 * kLevels[0] >= kLevels[index] + kLevels[index + 1]) ++index;
      table.at[place] = {float(kLevels[index]), index};
    }
    return table;
  }();
};

template <int N>
Lanes error_of(const SubBlocks<N>& b, Lanes scale, const auto& level) {
  const Lanes inverse = ratio(all(1), scale);
  Lanes error = all(0);
  for (int i = 0; i < N; ++i) {
    const Lanes off = scale * level(b.x[i] * inverse) - b.x[i];
    error += b.w[i] * off * off;
  }
  return error;
}

/// Weighted sums over the numbers x of a sub-block and the levels q that 1 / scale gives them.
struct Sums {
  Lanes qq = all(0), qx = all(0);
};

template <int N>
Sums sums_of(const SubBlocks<N>& b, Lanes inverse, const auto& level) {
  Sums sums;
  for (int i = 0; i < N; ++i) {
    const Lanes q = level(b.x[i] * inverse);
    sums.qq += b.w[i] * q * q;
    sums.qx += b.w[i] * q * b.x[i];
  }
  return sums;
}

/// The best scale over candidates that give the number of largest magnitude about the lowest or the highest level: from
/// steps below it, the more the more levels there are, to 0.8 steps beyond it.
template <int N>
Lanes search(const SubBlocks<N>& b, const auto& level) {
  Lanes largest = all(0);
  for (int i = 0; i < N; ++i) largest = pick(abs(b.x[i]) > abs(largest), b.x[i], largest);
  Lanes best = all(0), best_gain = all(0);
  const auto attempt = [&](Lanes inverse) {
    const Sums sums = sums_of(b, inverse, level);
    const Lanes scale = ratio(sums.qx, sums.qq), gain = scale * sums.qx;  // what it saves of the sum of w x^2
    best = pick(gain > best_gain, scale, best);
    best_gain = pick(gain > best_gain, gain, best_gain);
  };
  const float below = 1 + level.highest / level.step / 16;
  for (int i = 0; i < level.candidates; ++i) {
    const float beyond = level.step * (float(i) / float(level.candidates - 1) * (below + 0.8f) - below);
    attempt(ratio(all(level.lowest - beyond), largest));
    attempt(ratio(all(level.highest + beyond), largest));
  }
  attempt(ratio(all(1), best));
  return best;
}

/// A block of 256 numbers in sixteen sub-blocks, while it is being quantised.
class Block {
 public:
  /// Levels are -levels .. levels - 1, and so are the integers of scales.
  Block(const float* numbers, float levels, float integers)
      : level_{-levels, levels - 1}, integer_{-integers, integers - 1} {
    Lanes scales[kGroups];
    float largest = 0;
    for (int g = 0; g < kGroups; ++g) {
      numbers_[g].load(numbers + g * kLanes * kSize);
      scales[g] = search(numbers_[g], level_);
      for (int lane = 0; lane < kLanes; ++lane)
        if (std::abs(scales[g][lane]) > std::abs(largest)) largest = scales[g][lane];
    }
    d_ = float(f16(-largest / integers));
    for (int g = 0; g < kGroups; ++g) choose_integers(g, scales[g]);
    refit();
  }

  Half d() const { return half_of(d_); }
  int scale(int s) const { return int(integers_[s / kLanes][s % kLanes]); }

  /// Counted from 0.
  void levels(uint8_t (&q)[256]) const {
    for (int g = 0; g < kGroups; ++g) {
      const Lanes inverse = ratio(all(1), d_ * integers_[g]);
      for (int i = 0; i < kSize; ++i) {
        const Lanes level = level_(numbers_[g].x[i] * inverse) - level_.lowest;
        for (int lane = 0; lane < kLanes; ++lane) q[(g * kLanes + lane) * kSize + i] = uint8_t(level[lane]);
      }
    }
  }

 private:
  static constexpr int kSize = 16, kGroups = 256 / kSize / kLanes;

  void choose_integers(int g, Lanes scale) {
    const Lanes nearest = integer_(scale * (d_ != 0 ? 1 / d_ : 0));
    Lanes least = error_of(numbers_[g], d_ * nearest, level_);
    integers_[g] = nearest;
    for (const float away : {-1.0f, 1.0f}) {
      const Lanes integer = clamp(nearest + away, integer_.lowest, integer_.highest);
      const Lanes error = error_of(numbers_[g], d_ * integer, level_);
      integers_[g] = pick(error < least, integer, integers_[g]);
      least = pick(error < least, error, least);
    }
  }

  float error() const {
    Lanes error = all(0);
    for (int g = 0; g < kGroups; ++g) error += error_of(numbers_[g], d_ * integers_[g], level_);
    return sum(error);
  }

  /// d of least squares for the levels that it gives: of x = d a, with a = integer * level.
  void refit() {
    float aa = 0, ax = 0;
    for (int g = 0; g < kGroups; ++g) {
      const Sums sums = sums_of(numbers_[g], ratio(all(1), d_ * integers_[g]), level_);
      aa += sum(integers_[g] * integers_[g] * sums.qq);
      ax += sum(integers_[g] * sums.qx);
    }
    const float d = d_, before = error();
    if (aa > 0) d_ = float(f16(ax / aa));
    if (!(error() < before)) d_ = d;  // rounding to f16, or other levels, took back what was gained
  }

  const Steps level_, integer_;
  float d_ = 0;
  SubBlocks<kSize> numbers_[kGroups];
  Lanes integers_[kGroups];
};

void pack(const float* numbers, Q3_K& b) {
  const Block block(numbers, 4, 32);
  uint8_t q[256];
  block.levels(q);
  b.d = block.d();
  for (int s = 0; s < 16; ++s) {
    const int scale = block.scale(s) + 32;
    b.scales[s % 8] |= uint8_t((scale & 15) << s / 8 * 4);
    b.scales[8 + s % 4] |= uint8_t(scale >> 4 << s / 4 * 2);
  }
  for (int i = 0; i < 256; ++i) {
    b.qs[i / 128 * 32 + i % 32] |= uint8_t((q[i] & 3) << i % 128 / 32 * 2);
    b.hmask[i % 32] |= uint8_t(q[i] >> 2 << i / 32);
  }
}

void pack(const float* numbers, Q6_K& b) {
  const Block block(numbers, 32, 128);
  uint8_t q[256];
  block.levels(q);
  b.d = block.d();
  for (int s = 0; s < 16; ++s) b.scales[s] = int8_t(block.scale(s));
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, quarter = i % 128 / 32;  // of 128 elements, which share 64 bytes of ql and 32 of qh
    b.ql[half * 64 + quarter % 2 * 32 + i % 32] |= uint8_t((q[i] & 15) << quarter / 2 * 4);
    b.qh[half * 32 + i % 32] |= uint8_t(q[i] >> 4 << quarter * 2);
  }
}

template <class T>
void pack_all(const float* numbers, int64_t elements, std::byte* out) {
  for (int64_t at = 0; at < elements; at += 256, out += sizeof(T)) {
    T b{};
    pack(numbers + at, b);
    std::memcpy(out, &b, sizeof b);
  }
}

}  // namespace

void search_q3_k(const float* numbers, int64_t elements, std::byte* out) { pack_all<Q3_K>(numbers, elements, out); }
void search_q6_k(const float* numbers, int64_t elements, std::byte* out) { pack_all<Q6_K>(numbers, elements, out); }

// Four blocks side by side; where there are fewer, zeros stand for the others.
void search_iq4_nl(const float* numbers, int64_t elements, std::byte* out) {
  constexpr int kBlock = 32;
  for (int64_t at = 0; at < elements; at += kLanes * kBlock) {
    const int blocks = int(std::min<int64_t>(kLanes, (elements - at) / kBlock));
    float padded[kLanes * kBlock] = {};
    std::memcpy(padded, numbers + at, size_t(blocks * kBlock) * sizeof(float));
    SubBlocks<kBlock> four;
    four.load(padded);
    Lanes d = search(four, Uneven());
    for (int lane = 0; lane < kLanes; ++lane) d[lane] = float(f16(d[lane]));
    const Lanes inverse = ratio(all(1), d);
    IQ4_NL b[kLanes] = {};
    for (int lane = 0; lane < kLanes; ++lane) b[lane].d = half_of(d[lane]);
    for (int i = 0; i < kBlock; ++i) {
      const IntLanes q = Uneven().indices(four.x[i] * inverse);
      for (int lane = 0; lane < kLanes; ++lane) b[lane].qs[i % 16] |= uint8_t(q[lane] << i / 16 * 4);
    }
    std::memcpy(out + at / kBlock * int64_t(sizeof b[0]), b, size_t(blocks) * sizeof b[0]);
  }
}

}  // namespace espalier
