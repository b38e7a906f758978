// The product of two packed panels of bf16 by the processor's own bf16 instruction (AVX-512 BF16), which sums pairs of
// products in f32. Highway 1.0.3 has no word for it.
#pragma once
#include <cstdint>

namespace espalier {

/// Two bf16 of neighbouring depth; the lower half is the earlier one.
using BF16Pair = uint32_t;

/// True where that instruction exists and is faster than widening to f32: on AMD's processors twice as fast, on
/// Intel's half as fast (measured on Zen 4 and Emerald Rapids). ESP_BF16=pairs or widen pins the choice.
bool bf16_pairs_pay();

/// sums[i][j] = sum over k of a[k * rows + i] . b[k * 32 + j] for i < rows <= 14, j < 32; sums [rows, 32] and b are
/// 64-byte aligned.
void multiply_bf16_panels(int64_t rows, const BF16Pair* a, const BF16Pair* b, int64_t pairs, float* sums);

}  // namespace espalier
