// Four sub-blocks of a GGUF block side by side, for the quantisers that search (formats/gguf_search.h): each lane works
// on a sub-block of its own, so that sums over a sub-block need no rearranging and no lane depends on its neighbours.
// Plain vectors of the compiler, which every x86-64 has.
#pragma once
#include <cmath>

namespace espalier::gguf_lanes {

constexpr int kLanes = 4;
using Lanes = float __attribute__((vector_size(16)));
using IntLanes = int __attribute__((vector_size(16)));

inline Lanes all(float x) { return Lanes{x, x, x, x}; }
inline Lanes pick(auto mask, Lanes a, Lanes b) { return mask ? a : b; }
inline Lanes abs(Lanes a) { return a < 0 ? -a : a; }

/// Into [lowest, highest]; NaN becomes `lowest`.
inline Lanes clamp(Lanes x, float lowest, float highest) {
  const Lanes above = x > lowest ? x : all(lowest);
  return above < highest ? above : all(highest);
}

/// To the nearest integer, ties to even, for |x| < 2^22: a number above 1.5 * 2^23 has no room for a fraction.
inline Lanes round(Lanes x) { return (x + 0x1.8p23f) - 0x1.8p23f; }

/// Integers as such.
inline IntLanes whole(Lanes x) { return __builtin_convertvector(x, IntLanes); }

/// a / b, and 0 where b is 0.
inline Lanes ratio(Lanes a, Lanes b) { return b != 0 ? a / b : all(0); }

inline float sum(Lanes a) { return (a[0] + a[1]) + (a[2] + a[3]); }

/// Four sub-blocks of N numbers: x[i] holds number i of each, w[i] how much its error counts.
template <int N>
struct SubBlocks {
  Lanes x[N], w[N];
  Lanes sum_w = all(0), sum_wx = all(0);

  void load(const float* numbers) {
    Lanes squares = all(0);
    for (int i = 0; i < N; ++i) {
      x[i] = Lanes{numbers[i], numbers[N + i], numbers[2 * N + i], numbers[3 * N + i]};
      squares += x[i] * x[i];
    }
    const Lanes size = squares / float(N);
    const Lanes rms = {std::sqrt(size[0]), std::sqrt(size[1]), std::sqrt(size[2]), std::sqrt(size[3])};
    for (int i = 0; i < N; ++i) {
      w[i] = 2 * rms + abs(x[i]);
      sum_w += w[i];
      sum_wx += w[i] * x[i];
    }
  }
};

}  // namespace espalier::gguf_lanes
