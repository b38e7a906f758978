// Quantised products by AVX2, which multiplies unsigned by signed bytes and adds two neighbours in 16 bits. Numbers of
// few bits are summed there as long as they cannot overflow; 8-bit ones give their sign to the activation first.
#include <immintrin.h>

#include <array>

#include <hwy/base.h>

#include "kernels/x86/quant_multiply.h"

HWY_PUSH_ATTRIBUTES("avx2,f16c,fma");
namespace espalier {
namespace {

struct Ops {
  using I = __m256i;
  using F = __m256;
  static constexpr int kLanes = 8, kTileRows = 4;
  static constexpr bool kSigned = true;

  static HWY_INLINE I load(const std::byte* p) { return _mm256_load_si256(reinterpret_cast<const I*>(p)); }
  static HWY_INLINE I mask(I x, char bits) { return _mm256_and_si256(x, _mm256_set1_epi8(bits)); }
  template <int n>
  static HWY_INLINE I shift_right(I x) {
    return n > 0 ? _mm256_srli_epi16(x, n) : x;  // bits of the neighbour are masked away
  }
  /// q | bits, which begin at bit `from` of each byte of `plane`, moved to bit `to` and masked.
  template <int from, int to, int bits>
  static HWY_INLINE I add_bits(I q, I plane) {
    const I moved = from > to ? _mm256_srli_epi16(plane, from - to) : _mm256_slli_epi16(plane, to - from);
    return _mm256_or_si256(q, mask(moved, bits));
  }
  static HWY_INLINE I look_up(I q) {
    const __m128i levels = _mm_loadu_si128(reinterpret_cast<const __m128i*>(kIQ4Levels));
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(levels), q);
  }
  static HWY_INLINE I flip_sign(I q) { return _mm256_xor_si256(q, _mm256_set1_epi8(char(0x80))); }

  static HWY_INLINE F zero() { return _mm256_setzero_ps(); }
  static HWY_INLINE F load_half(const std::byte* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static HWY_INLINE __m128i load_8(const std::byte* p) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)); }
  static HWY_INLINE F load_u8(const std::byte* p) { return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(load_8(p))); }
  static HWY_INLINE F load_i8(const std::byte* p) { return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(load_8(p))); }
  static HWY_INLINE F load_low_nibbles(const std::byte* p) {
    return _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_cvtepu8_epi32(load_8(p)), _mm256_set1_epi32(15)));
  }
  static HWY_INLINE F load_high_nibbles(const std::byte* p) {
    return _mm256_cvtepi32_ps(_mm256_srli_epi32(_mm256_cvtepu8_epi32(load_8(p)), 4));
  }
  static HWY_INLINE F spread(const float* p) { return _mm256_broadcast_ss(p); }
  static HWY_INLINE F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static HWY_INLINE F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  static HWY_INLINE F negative_fma(F a, F b, F c) { return _mm256_fnmadd_ps(a, b, c); }
  static HWY_INLINE F to_float(I x) { return _mm256_cvtepi32_ps(x); }
  static HWY_INLINE void store(float* p, F x) { _mm256_storeu_ps(p, x); }

  /// A group of weights; of 8-bit ones magnitude and sign.
  template <int kBits>
  struct Weights {
    I magnitude, sign;
  };
  template <int kBits>
  static HWY_INLINE Weights<kBits> prepare(I w) {
    if constexpr (kBits == 8) return {_mm256_abs_epi8(w), w};
    return {w, w};
  }

  /// Sums of pairs stay within 16 bits for kRun groups: at most 2 * kRun * (2^bits - 1) * 127.
  template <int kBits, int kGroups>
  struct Sum {
    static constexpr int kRun = kBits <= 4 ? 8 : kBits == 5 ? 4 : kBits == 6 ? 2 : 1;
    I sum, pairs;
    template <int kZero>
    HWY_INLINE void start(const int32_t* minus_sum) {
      sum = kZero == 0 ? _mm256_setzero_si256()
                       : _mm256_slli_epi32(_mm256_set1_epi32(*minus_sum), __builtin_ctz(kZero | 0x10000));
    }
    template <int g>
    HWY_INLINE void add(Weights<kBits> w, const int8_t* x) {
      int32_t four;
      __builtin_memcpy(&four, x, 4);
      const I spread = _mm256_set1_epi32(four);
      const I products = _mm256_maddubs_epi16(w.magnitude, kBits == 8 ? _mm256_sign_epi8(spread, w.sign) : spread);
      pairs = g % kRun == 0 ? products : _mm256_add_epi16(pairs, products);
      if constexpr (g % kRun == kRun - 1 || g == kGroups - 1)
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
    }
    HWY_INLINE I total() const { return sum; }
  };
};

#include "kernels/x86/quant_multiply-inl.h"

}  // namespace
HWY_POP_ATTRIBUTES

const QuantMultiply kQuantAvx2 = {Ops::kTileRows, multiply_by_table};

}  // namespace espalier
