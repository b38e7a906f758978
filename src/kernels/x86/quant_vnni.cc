// Quantised products by AVX-512 VNNI, whose instruction multiplies four unsigned by four signed bytes in each of 16
// lanes and adds them. Highway 1.0.3 has no word for it.
#include <immintrin.h>

#include <array>
#include <cstdlib>
#include <string_view>

#include <hwy/base.h>

#include "kernels/x86/quant_multiply.h"

// GCC 12 takes the undefined start of some intrinsics for a mistake of ours (its bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,f16c,fma");
namespace espalier {
namespace {

struct Ops {
  using I = __m512i;
  using F = __m512;
  static constexpr int kLanes = 16, kTileRows = 8;
  static constexpr bool kSigned = false;

  static HWY_INLINE I load(const std::byte* p) { return _mm512_load_si512(p); }
  static HWY_INLINE I mask(I x, char bits) { return _mm512_and_si512(x, _mm512_set1_epi8(bits)); }
  template <int n>
  static HWY_INLINE I shift_right(I x) {
    return n > 0 ? _mm512_srli_epi16(x, n) : x;  // bits of the neighbour are masked away
  }
  /// q | bits, which begin at bit `from` of each byte of `plane`, moved to bit `to` and masked.
  template <int from, int to, int bits>
  static HWY_INLINE I add_bits(I q, I plane) {
    const I moved = from > to ? _mm512_srli_epi16(plane, from - to) : _mm512_slli_epi16(plane, to - from);
    return _mm512_ternarylogic_epi32(q, moved, _mm512_set1_epi8(bits), 0xF8);  // a | (b & c)
  }
  static HWY_INLINE I look_up(I q) {
    const __m128i levels = _mm_loadu_si128(reinterpret_cast<const __m128i*>(kIQ4Levels));
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(levels), q);
  }
  static HWY_INLINE I flip_sign(I q) { return q; }

  static HWY_INLINE F zero() { return _mm512_setzero_ps(); }
  static HWY_INLINE F load_half(const std::byte* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static HWY_INLINE __m128i load_16(const std::byte* p) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  }
  static HWY_INLINE F load_u8(const std::byte* p) { return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(load_16(p))); }
  static HWY_INLINE F load_i8(const std::byte* p) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load_16(p))); }
  static HWY_INLINE F load_low_nibbles(const std::byte* p) {
    return _mm512_cvtepi32_ps(_mm512_and_si512(_mm512_cvtepu8_epi32(load_16(p)), _mm512_set1_epi32(15)));
  }
  static HWY_INLINE F load_high_nibbles(const std::byte* p) {
    return _mm512_cvtepi32_ps(_mm512_srli_epi32(_mm512_cvtepu8_epi32(load_16(p)), 4));
  }
  static HWY_INLINE F spread(const float* p) { return _mm512_set1_ps(*p); }
  static HWY_INLINE F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static HWY_INLINE F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static HWY_INLINE F negative_fma(F a, F b, F c) { return _mm512_fnmadd_ps(a, b, c); }
  static HWY_INLINE F to_float(I x) { return _mm512_cvtepi32_ps(x); }
  static HWY_INLINE void store(float* p, F x) { _mm512_storeu_ps(p, x); }

  template <int kBits>
  static HWY_INLINE I prepare(I w) { return w; }

  template <int kBits, int kGroups>
  struct Sum {
    I sum;
    template <int kZero>
    HWY_INLINE void start(const int32_t* minus_sum) {
      sum = kZero == 0 ? _mm512_setzero_si512() : times<kZero>(minus_sum);
    }
    template <int g>
    HWY_INLINE void add(I w, const int8_t* x) {
      int32_t four;
      __builtin_memcpy(&four, x, 4);
      sum = _mm512_dpbusd_epi32(sum, w, _mm512_set1_epi32(four));
    }
    HWY_INLINE I total() const { return sum; }

   private:
    /// kZero, a power of two, times the number in every lane.
    template <int kZero>
    static HWY_INLINE I times(const int32_t* x) {
      return _mm512_slli_epi32(_mm512_set1_epi32(*x), unsigned(__builtin_ctz(kZero)));
    }
  };
};

#include "kernels/x86/quant_multiply-inl.h"

}  // namespace
HWY_POP_ATTRIBUTES

bool has_vnni() {
  __builtin_cpu_init();
  const char* pinned = std::getenv("ESP_VNNI");
  return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
         !(pinned && pinned == std::string_view("off"));
}

const QuantMultiply kQuantVnni = {Ops::kTileRows, multiply_by_table};

}  // namespace espalier
