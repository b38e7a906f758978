#include "train/compute_choice.h"

#include "kernels/gemm.h"
#include "kernels/peak.h"

namespace espalier {
namespace {

// bf16 has 8 bits of mantissa: only a real gain pays for them.
constexpr double kWorthwhile = 1.1;

}  // namespace

ComputeChoice choose_compute(Context& ctx, const ComputeConfig& config) {
  const bool reference = ctx.isa == Isa::kReference;  // plain loops: an oracle, not to be timed
  const bool measure = config.peak_gflops == 0 && !reference;
  ComputeChoice choice;
  double f32 = 0, bf16 = 0;
  if (config.dtype == "auto") {
    if (!reference && has_native_bf16()) {
      f32 = gemm_peak_gflops(ctx, DType::kF32, true);
      bf16 = gemm_peak_gflops(ctx, DType::kBF16, true);
    }
    choice.dtype = bf16 > kWorthwhile * f32 ? DType::kBF16 : DType::kF32;
  } else {
    choice.dtype = parse_dtype(config.dtype);
    if (choice.dtype == DType::kBF16 && !reference && !has_native_bf16())
      ctx.log.warn("this machine has no bf16 products; they are computed by conversion, slower than compute.dtype=f32");
  }
  if (config.peak_gflops > 0) {
    choice.peak_gflops = config.peak_gflops;
    choice.peak_note = "compute.peak_gflops";
  } else if (measure) {
    const double known = choice.dtype == DType::kBF16 ? bf16 : f32;
    choice.peak_gflops = known > 0 ? known : gemm_peak_gflops(ctx, choice.dtype, true);
    choice.peak_note = fmt::format("best {} product of 1024^3 and 2048^3 measured at the start, {} threads",
                                   dtype_name(choice.dtype), ctx.pool.size());
  }
  return choice;
}

}  // namespace espalier
