// Q2_K, Q4_K and Q5_K: x = scale q - minimum, with levels q from 0 and a minimum that is never negative.
#include <algorithm>
#include <cstring>

#include "formats/gguf_lanes.h"
#include "formats/gguf_layouts.h"
#include "formats/gguf_search.h"

namespace espalier {
namespace {

using namespace gguf_lanes;
using namespace gguf_layouts;

constexpr int kBlock = 256;

/// What four sub-blocks become: x = scale q - minimum.
struct Line {
  Lanes scale, minimum;
};

/// The level of x: the nearest of 0 .. top to (x + minimum) / scale.
Lanes level_of(Lanes x, Lanes minimum, Lanes inverse_scale, float top) {
  return round(clamp((x + minimum) * inverse_scale, 0, top));
}

/// Weighted sums over the numbers x of a sub-block and the levels q that they were given.
struct Sums {
  Lanes q = all(0), qq = all(0), qx = all(0);
};

template <int N>
Sums sums_of(const SubBlocks<N>& b, const Line& line, float top) {
  const Lanes inverse = ratio(all(1), line.scale);
  Sums sums;
  for (int i = 0; i < N; ++i) {
    const Lanes q = level_of(b.x[i], line.minimum, inverse, top);
    sums.q += b.w[i] * q;
    sums.qq += b.w[i] * q * q;
    sums.qx += b.w[i] * q * b.x[i];
  }
  return sums;
}

/// The line of least squares for these levels. A minimum below 0, which the format cannot say, becomes 0; where all
/// levels are equal there is only a minimum.
template <int N>
Line fit(const SubBlocks<N>& b, const Sums& s) {
  // Of equal levels it is 0 but for rounding, which stays below this part of what is subtracted.
  const Lanes product = b.sum_w * s.qq, difference = product - s.q * s.q;
  const Lanes determinant = pick(difference > 1e-5f * product, difference, all(0));
  const Lanes scale = ratio(b.sum_w * s.qx - b.sum_wx * s.q, determinant);
  const Lanes minimum =
      pick(determinant != 0, ratio(s.q * s.qx - b.sum_wx * s.qq, determinant), ratio(-b.sum_wx, b.sum_w));
  const Lanes without = ratio(s.qx, s.qq);
  return {pick(minimum < 0, without, scale), pick(minimum < 0, all(0), minimum)};
}

/// What a line saves of the sum of w x^2.
template <int N>
Lanes gain_of(const SubBlocks<N>& b, const Line& l, const Sums& s) {
  return l.scale * (2 * s.qx - l.scale * s.qq + 2 * l.minimum * s.q) -
         l.minimum * (2 * b.sum_wx + l.minimum * b.sum_w);
}

/// The best line over candidate scales: those that spread the numbers over fewer steps than there are (the fewer the
/// more there are) to 0.8 more.
template <int N>
Line search(const SubBlocks<N>& b, float top) {
  Lanes least = all(0), most = b.x[0];
  for (int i = 0; i < N; ++i) {
    least = pick(b.x[i] < least, b.x[i], least);
    most = pick(b.x[i] > most, b.x[i], most);
  }
  Line best{all(0), all(0)};
  Lanes best_gain = all(0);
  const auto attempt = [&](const Line& candidate) {
    const Sums sums = sums_of(b, candidate, top);
    const Line line = fit(b, sums);
    const Lanes gain = gain_of(b, line, sums);
    best = {pick(gain > best_gain, line.scale, best.scale), pick(gain > best_gain, line.minimum, best.minimum)};
    best_gain = pick(gain > best_gain, gain, best_gain);
  };
  constexpr int kCandidates = 10;
  const float fewer = 1 + top / 16;
  for (int i = 0; i < kCandidates; ++i)
    attempt({(most - least) / (top - fewer + float(i) / (kCandidates - 1) * (fewer + 0.8f)), -least});
  attempt(best);
  return best;
}

/// A block in sub-blocks of N numbers, while it is being quantised.
template <int N>
class Block {
 public:
  static constexpr int kSubBlocks = kBlock / N;

  /// Levels are 0 .. top, the integers of scales and minima 0 .. integer_top.
  Block(const float* numbers, float top, float integer_top) : top_(top), integer_top_(integer_top) {
    float scale = 0, minimum = 0;
    Line lines[kGroups];
    for (int g = 0; g < kGroups; ++g) {
      numbers_[g].load(numbers + g * kLanes * N);
      lines[g] = search(numbers_[g], top);
      for (int lane = 0; lane < kLanes; ++lane) {
        scale = std::max(scale, lines[g].scale[lane]);
        minimum = std::max(minimum, lines[g].minimum[lane]);
      }
    }
    d_ = float(f16(scale / integer_top));
    dmin_ = float(f16(minimum / integer_top));
    for (int g = 0; g < kGroups; ++g) choose_integers(g, lines[g]);
    refit();
  }

  Half d() const { return half_of(d_); }
  Half dmin() const { return half_of(dmin_); }
  int scale(int s) const { return int(integers_[s / kLanes].scale[s % kLanes]); }
  int minimum(int s) const { return int(integers_[s / kLanes].minimum[s % kLanes]); }

  void levels(uint8_t (&q)[kBlock]) const {
    for (int g = 0; g < kGroups; ++g) {
      const Line line = line_of(integers_[g]);
      const Lanes inverse = ratio(all(1), line.scale);
      for (int i = 0; i < N; ++i) {
        const Lanes level = level_of(numbers_[g].x[i], line.minimum, inverse, top_);
        for (int lane = 0; lane < kLanes; ++lane) q[(g * kLanes + lane) * N + i] = uint8_t(level[lane]);
      }
    }
  }

 private:
  static constexpr int kGroups = kSubBlocks / kLanes;

  Line line_of(const Line& integers) const { return {d_ * integers.scale, dmin_ * integers.minimum}; }

  Lanes error_of(int g, const Line& integers) const {
    const Line line = line_of(integers);
    const Lanes inverse = ratio(all(1), line.scale);
    Lanes error = all(0);
    for (int i = 0; i < N; ++i) {
      const Lanes x = numbers_[g].x[i];
      const Lanes off = line.scale * level_of(x, line.minimum, inverse, top_) - line.minimum - x;
      error += numbers_[g].w[i] * off * off;
    }
    return error;
  }

  void choose_integers(int g, const Line& line) {
    const Line nearest{round(clamp(line.scale * (d_ > 0 ? 1 / d_ : 0), 0, integer_top_)),
                       round(clamp(line.minimum * (dmin_ > 0 ? 1 / dmin_ : 0), 0, integer_top_))};
    integers_[g] = nearest;
    Lanes least = error_of(g, nearest);
    for (int scale = -1; scale <= 1; ++scale)
      for (int minimum = -1; minimum <= 1; ++minimum) {
        const Line integers{clamp(nearest.scale + float(scale), 0, integer_top_),
                            clamp(nearest.minimum + float(minimum), 0, integer_top_)};
        const Lanes error = error_of(g, integers);
        Line& best = integers_[g];
        best = {pick(error < least, integers.scale, best.scale), pick(error < least, integers.minimum, best.minimum)};
        least = pick(error < least, error, least);
      }
  }

  float error() const {
    Lanes error = all(0);
    for (int g = 0; g < kGroups; ++g) error += error_of(g, integers_[g]);
    return sum(error);
  }

  /// d and dmin of least squares for the levels that they give: of x = d a - dmin b, with a = integer * q.
  void refit() {
    double aa = 0, ab = 0, bb = 0, ax = 0, bx = 0;
    for (int g = 0; g < kGroups; ++g) {
      const Sums sums = sums_of(numbers_[g], line_of(integers_[g]), top_);
      const auto& [scale, minimum] = integers_[g];
      aa += double(sum(scale * scale * sums.qq));
      ab += double(sum(scale * minimum * sums.q));
      bb += double(sum(minimum * minimum * numbers_[g].sum_w));
      ax += double(sum(scale * sums.qx));
      bx += double(sum(minimum * numbers_[g].sum_wx));
    }
    const double determinant = aa * bb - ab * ab;
    const float d = d_, dmin = dmin_, before = error();
    if (determinant > 0) {
      d_ = float(f16(float((ax * bb - bx * ab) / determinant)));
      dmin_ = float(f16(float((ax * ab - bx * aa) / determinant)));
    } else if (aa > 0) {
      d_ = float(f16(float(ax / aa)));
    }
    if (d_ >= 0 && dmin_ >= 0 && error() < before) return;
    d_ = d;  // rounding to f16, or other levels, took back what was gained
    dmin_ = dmin;
  }

  const float top_, integer_top_;
  float d_ = 0, dmin_ = 0;
  SubBlocks<N> numbers_[kGroups];
  Line integers_[kGroups];
};

void pack(const float* numbers, Q2_K& b) {
  const Block<16> block(numbers, 3, 15);
  uint8_t q[kBlock];
  block.levels(q);
  b.d = block.d();
  b.dmin = block.dmin();
  for (int s = 0; s < 16; ++s) b.scales[s] = uint8_t(block.scale(s) | block.minimum(s) << 4);
  for (int i = 0; i < 64; ++i) {
    const uint8_t* of = q + i / 32 * 128 + i % 32;
    b.qs[i] = uint8_t(of[0] | of[32] << 2 | of[64] << 4 | of[96] << 6);
  }
}

/// The inverse of scale_min().
void put_scale_min(const Block<32>& block, uint8_t (&packed)[12]) {
  for (int s = 0; s < 4; ++s) {
    packed[s] = uint8_t(block.scale(s) | block.scale(s + 4) >> 4 << 6);
    packed[s + 4] = uint8_t(block.minimum(s) | block.minimum(s + 4) >> 4 << 6);
    packed[s + 8] = uint8_t((block.scale(s + 4) & 15) | (block.minimum(s + 4) & 15) << 4);
  }
}

/// The lower four bits of all levels: 32 bytes hold two sub-blocks.
void put_low(const uint8_t (&q)[kBlock], uint8_t (&qs)[128]) {
  for (int i = 0; i < 128; ++i) {
    const uint8_t* of = q + i / 32 * 64 + i % 32;
    qs[i] = uint8_t((of[0] & 15) | (of[32] & 15) << 4);
  }
}

void pack(const float* numbers, Q4_K& b) {
  const Block<32> block(numbers, 15, 63);
  uint8_t q[kBlock];
  block.levels(q);
  b.d = block.d();
  b.dmin = block.dmin();
  put_scale_min(block, b.scales);
  put_low(q, b.qs);
}

void pack(const float* numbers, Q5_K& b) {
  const Block<32> block(numbers, 31, 63);
  uint8_t q[kBlock];
  block.levels(q);
  b.d = block.d();
  b.dmin = block.dmin();
  put_scale_min(block, b.scales);
  put_low(q, b.qs);
  for (int i = 0; i < kBlock; ++i) b.qh[i % 32] |= uint8_t(q[i] >> 4 << i / 32);
}

template <class T>
void pack_all(const float* numbers, int64_t elements, std::byte* out) {
  for (int64_t at = 0; at < elements; at += kBlock, out += sizeof(T)) {
    T b{};
    pack(numbers + at, b);
    std::memcpy(out, &b, sizeof b);
  }
}

}  // namespace

void search_q2_k(const float* numbers, int64_t elements, std::byte* out) { pack_all<Q2_K>(numbers, elements, out); }
void search_q4_k(const float* numbers, int64_t elements, std::byte* out) { pack_all<Q4_K>(numbers, elements, out); }
void search_q5_k(const float* numbers, int64_t elements, std::byte* out) { pack_all<Q5_K>(numbers, elements, out); }

}  // namespace espalier
