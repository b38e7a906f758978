#include "kernels/x86/bf16_panels.h"

#include <immintrin.h>

#include <array>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "kernels/gemm.h"

namespace espalier {
namespace {

#define ESP_TARGET_BF16 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")))

template <int kRows>
ESP_TARGET_BF16 void multiply(const BF16Pair* a, const BF16Pair* b, int64_t pairs, float* sums) {
  __m512 left[kRows], right[kRows];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) left[i] = right[i] = _mm512_setzero_ps();
  for (int64_t k = 0; k < pairs; ++k) {
    const auto b0 = reinterpret_cast<__m512bh>(_mm512_load_si512(b));
    const auto b1 = reinterpret_cast<__m512bh>(_mm512_load_si512(b + 16));
    _mm_prefetch(reinterpret_cast<const char*>(a + 16 * kRows), _MM_HINT_T0);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      __m512i spread = _mm512_set1_epi32(int(a[i]));
#ifdef __clang__
      asm("" : "+v"(spread));  // clang 16 crashes where it sees that bf16 numbers are spread
#endif
      const auto x = reinterpret_cast<__m512bh>(spread);
      left[i] = _mm512_dpbf16_ps(left[i], x, b0);
      right[i] = _mm512_dpbf16_ps(right[i], x, b1);
    }
    a += kRows;
    b += 32;
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    _mm512_store_ps(sums + i * 32, left[i]);
    _mm512_store_ps(sums + i * 32 + 16, right[i]);
  }
}

using Multiply = void (*)(const BF16Pair*, const BF16Pair*, int64_t, float*);

template <int... kIndex>
constexpr std::array<Multiply, sizeof...(kIndex)> multiplies(std::integer_sequence<int, kIndex...>) {
  return {multiply<kIndex + 1>...};
}

}  // namespace

bool bf16_pairs_pay() {
  __builtin_cpu_init();
  const char* pinned = std::getenv("ESP_BF16");
  return has_native_bf16() && (pinned ? pinned == std::string_view("pairs") : __builtin_cpu_is("amd") != 0);
}

void multiply_bf16_panels(int64_t rows, const BF16Pair* a, const BF16Pair* b, int64_t pairs, float* sums) {
  static constexpr auto kMultiplies = multiplies(std::make_integer_sequence<int, 14>());
  kMultiplies[size_t(rows - 1)](a, b, pairs, sums);
}

}  // namespace espalier
