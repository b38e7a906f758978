// The kernel table: every numeric loop of the program behind one struct of function pointers on plain views, with the
// instances `reference` (plain loops, kept readable for ever) and `cpu` (Highway). ESP_ISA pins one.
// Nobody outside this folder uses Highway or oneDNN.
#pragma once
#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "kernels/optimizer.h"
#include "kernels/q8_rows.h"
#include "kernels/quant_gemm.h"

namespace espalier {

struct Kernels {
  void (*gemm)(Context&, const GemmArgs&);
  void (*row_gemm)(Context&, const RowGemmArgs&);
  void (*quant_gemm)(Context&, const QuantGemmArgs&);

  void (*attention_forward)(Context&, const AttentionForwardArgs&);
  void (*attention_backward)(Context&, const AttentionBackwardArgs&);
  void (*cached_attention)(Context&, const CachedAttentionArgs&);
  void (*store_q8)(Context&, const Q8RowsArgs&);

  void (*embed_forward)(Context&, const EmbedArgs&);
  void (*embed_backward)(Context&, const EmbedBackwardArgs&);
  void (*norm_forward)(Context&, const NormArgs&);
  void (*norm_backward)(Context&, const NormBackwardArgs&);
  void (*rope)(Context&, const RopeArgs&);
  void (*activation_forward)(Context&, const ActivationArgs&);
  void (*activation_backward)(Context&, const ActivationBackwardArgs&);
  void (*softcap)(Context&, const SoftcapArgs&);
  void (*softcap_backward)(Context&, const SoftcapBackwardArgs&);
  void (*cross_entropy)(Context&, const CrossEntropyArgs&);
  void (*add)(Context&, const AddArgs&);
  void (*copy)(Context&, const CopyArgs&);
  void (*column_sum)(Context&, const ColumnSumArgs&);
  void (*dropout)(Context&, const DropoutArgs&);

  /// Sum of squares of n numbers, f64, in fixed pieces. NaN and infinity come through.
  double (*sum_squares)(Context&, const float* x, int64_t n);
  void (*adamw)(Context&, const AdamArgs&);
  LambNorms (*lamb)(Context&, const LambArgs&);
  void (*axpy)(Context&, const AxpyArgs&);
};

/// Plain loops: the oracle.
const Kernels& reference_kernels();
/// Vectors and threads, dispatched by ctx.isa inside.
const Kernels& cpu_kernels();
/// The table for ctx.isa.
inline const Kernels& kernels(const Context& ctx) {
  return ctx.isa == Isa::kReference ? reference_kernels() : cpu_kernels();
}

}  // namespace espalier
