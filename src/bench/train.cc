// `bench train` and `bench train-small`: whole training steps (loader, forward, backward, clip, AdamW) as tokens/s, and
// as a fraction of the best GEMM rate that this machine reaches in the same run.
#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "bench/bench.h"
#include "bench/median.h"
#include "bench/train_rig.h"
#include "kernels/peak.h"

namespace espalier {
namespace {

/// Median tokens/s of whole steps after two that warm up.
double tokens_per_s(Context& ctx, const TrainShape& shape, DType dtype, const BenchOptions& options) {
  const int64_t steps = 2 + std::max<int64_t>(options.repeats, options.quick ? 1 : 3);
  TrainRig rig(ctx, shape, dtype, steps, options.recompute);
  std::vector<double> rates;
  for (int64_t i = 0; i < steps; ++i) {
    const Stopwatch watch;
    rig.step.run(rig.loader.next(), i, 1);
    if (i >= 2) rates.push_back(double(shape.batch * shape.context) / watch.seconds());
  }
  return median(rates);
}

DType dtype_of(Context& ctx, const std::string& name) {
  if (name != "auto") return parse_dtype(name);
  return gemm_peak_gflops(ctx, DType::kBF16, true) > gemm_peak_gflops(ctx, DType::kF32, true) ? DType::kBF16
                                                                                              : DType::kF32;
}

BenchResult run(Context& ctx, Progress& progress, const BenchOptions& options, TrainShape shape,
                std::vector<int64_t> batches) {
  if (options.quick) shape.layers = 2;
  if (options.batch > 0) batches = {options.batch};
  const DType dtype = dtype_of(ctx, options.dtype);
  const double flops = train_flops_per_token(shape.spec(), shape.context, AttentionCount::kCausal);
  BenchResult result{.name = shape.name, .unit = "tokens/s", .limit_unit = "GFLOP/s"};
  progress.begin(fmt::format("{} in {}", shape.name, dtype_name(dtype)), int64_t(batches.size()) + 2, "runs");
  result.limit = gemm_peak_gflops(ctx, dtype, options.quick);
  progress.update(1, "");
  for (size_t i = 0; i < batches.size(); ++i) {
    shape.batch = batches[i];
    const double rate = tokens_per_s(ctx, shape, dtype, options);
    result.cells.push_back({fmt::format("B={}", shape.batch), rate});
    result.value = std::max(result.value, rate);
    progress.update(int64_t(i) + 2, fmt::format("B={} {:.0f} tokens/s", shape.batch, rate));
  }
  result.limit = std::max(result.limit, gemm_peak_gflops(ctx, dtype, options.quick));  // the machine drifts
  progress.end();
  result.fraction_of_limit = result.value * flops / 1e9 / result.limit;
  result.notes = {fmt::format("{} on {} threads; {:.4g} GFLOP/s: {:.4g} MFLOP a token, causal attention counted as "
                              "(T+1)/2 keys", dtype_name(dtype), ctx.pool.size(), result.value * flops / 1e9,
                              flops / 1e6)};
  return result;
}

BenchResult run_train(Context& ctx, Progress& progress, const BenchOptions& options) {
  return run(ctx, progress, options, kGpt2Small, {1, 2});
}

BenchResult run_train_small(Context& ctx, Progress& progress, const BenchOptions& options) {
  return run(ctx, progress, options, kDemoSize, {8});
}

}  // namespace

extern const Bench kTrainBench;
const Bench kTrainBench = {"train", "whole training steps of the GPT-2 124M shape, T=1024", run_train};
extern const Bench kTrainSmallBench;
const Bench kTrainSmallBench = {"train-small", "the same for L6 C384 V4096, T=256, B=8", run_train_small};

}  // namespace espalier
