// What this machine can reach, measured: the limits that benchmarks are fractions of.
#pragma once
#include <vector>

#include "base/context.h"
#include "tensor/dtype.h"

namespace espalier {

struct GemmPeak {
  DType dtype;         ///< kF32, kBF16, kU8 (int8)
  double gflops;       ///< best of 1024^3, 2048^3, 4096^3 on all threads of the pool; 0 where the machine has none
};

/// Best GEMM rate in `dtype` with all threads, square sizes 1024, 2048 and (unless quick) 4096; about a second each.
double gemm_peak_gflops(Context& ctx, DType dtype, bool quick);
/// Bytes a second read from memory (a sum over 1 GiB, or 256 MiB when quick) with all threads, in GB/s.
double read_bandwidth_gb_s(Context& ctx, bool quick);
/// Bytes copied (read + written) a second, GB/s.
double copy_bandwidth_gb_s(Context& ctx, bool quick);
/// "A" (AVX-512 with bf16 and VNNI), "B" (AVX2 only), or "other" (AVX-512 without bf16).
const char* machine_class();

}  // namespace espalier
