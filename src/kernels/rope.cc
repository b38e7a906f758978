// Rotary embedding in place: each pair (x0, x1) of a head turns by its position's angle,
//   (x0 cos - x1 sin, x1 cos + x0 sin), the other way round when inverse.
#include <algorithm>

#include "kernels/element.h"
#include "kernels/entries.h"
#include "kernels/pieces.h"
#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rope.cc"
#include "hwy/foreach_target.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace espalier {
namespace HWY_NAMESPACE {
namespace {

/// Pairs (j, j + half): two vectors of a head and two of the table turn together.
template <class T>
void turn_halves(T* x, const RopeArgs& a, const float* cos, const float* sin, V direction) {
  const int64_t half = a.rotary / 2;
  for_vectors(half, [&](int64_t j, auto lanes) HWY_ATTR {
    const V c = load(cos + j, lanes), s = hn::Mul(direction, load(sin + j, lanes));
    for (int64_t h = 0; h < a.heads; ++h) {
      T* first = x + h * a.head_size + j;
      T* second = first + half;
      const V x0 = load(first, lanes), x1 = load(second, lanes);
      store(first, hn::NegMulAdd(x1, s, hn::Mul(x0, c)), lanes);
      store(second, hn::MulAdd(x0, s, hn::Mul(x1, c)), lanes);
    }
  });
}

/// Pairs (2j, 2j + 1): x * (c, c) + swapped(x) * (-s, s), where the table's numbers are doubled once for all heads.
template <class T>
void turn_neighbours(T* x, const RopeArgs& a, const float* cos, const float* sin, V direction) {
  for_vectors(a.rotary, [&](int64_t j, auto lanes) HWY_ATTR {
    float cc[kLanes], ss[kLanes];
    for (int64_t k = 0; k < kLanes; ++k) {
      const int64_t pair = std::min(j + k, a.rotary - 1) / 2;
      cc[k] = cos[pair];
      ss[k] = k % 2 == 0 ? -sin[pair] : sin[pair];
    }
    const V c = load(cc, Whole()), s = hn::Mul(direction, load(ss, Whole()));
    for (int64_t h = 0; h < a.heads; ++h) {
      T* p = x + h * a.head_size + j;
      const V v = load(p, lanes);
      store(p, hn::MulAdd(v, c, hn::Mul(hn::Shuffle2301(v), s)), lanes);
    }
  });
}

void rope_rows(const RopeArgs& a, int64_t begin, int64_t end) {
  const V direction = splat(a.inverse ? -1.0f : 1.0f);
  visit_float(a.x.dtype, [&](auto t) HWY_ATTR {
    for (int64_t i = begin; i < end; ++i) {
      auto* x = a.x.row<decltype(t)>(i);
      const float* cos = a.table.row<float>(a.position_ids[i]);
      const float* sin = cos + a.rotary / 2;
      if (a.interleaved)
        turn_neighbours(x, a, cos, sin, direction);
      else
        turn_halves(x, a, cos, sin, direction);
    }
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace espalier
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace espalier {

namespace reference {

void rope(Context&, const RopeArgs& a) {
  const int64_t half = a.rotary / 2;
  for (int64_t i = 0; i < a.x.rows; ++i) {
    const float* cos = a.table.row<float>(a.position_ids[i]);
    const float* sin = cos + half;
    for (int64_t h = 0; h < a.heads; ++h) {
      for (int64_t j = 0; j < half; ++j) {
        const int64_t head = h * a.head_size;
        const int64_t first = head + (a.interleaved ? 2 * j : j), second = a.interleaved ? first + 1 : first + half;
        const float x0 = element(a.x, i, first), x1 = element(a.x, i, second);
        const float s = a.inverse ? -sin[j] : sin[j];
        set_element(a.x, i, first, x0 * cos[j] - x1 * s);
        set_element(a.x, i, second, x1 * cos[j] + x0 * s);
      }
    }
  }
}

}  // namespace reference

namespace cpu {

void rope(Context& ctx, const RopeArgs& a) {
  ESP_CHECK(a.rotary % 2 == 0 && a.rotary <= a.head_size, "rotary {} of head size {}", a.rotary, a.head_size);
  const auto rows = ESP_SIMD(ctx, rope_rows);
  for_rows(ctx, a.x.rows, a.heads * a.head_size, [&](int64_t begin, int64_t end) { rows(a, begin, end); });
}

}  // namespace cpu

}  // namespace espalier
#endif  // HWY_ONCE
