// The functions behind the two instances of the kernel table (kernels.h), which reference_table.cc and cpu_table.cc
// gather. What each computes is said once, at its argument struct. For this folder and its tests only.
#pragma once
#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "kernels/optimizer.h"
#include "kernels/q8_rows.h"
#include "kernels/quant_gemm.h"

namespace espalier {

/// Plain loops, one thread, sums in f64 or in the order of the formula: the oracle.
namespace reference {
void gemm(Context&, const GemmArgs&);
void row_gemm(Context&, const RowGemmArgs&);
void quant_gemm(Context&, const QuantGemmArgs&);
void attention_forward(Context&, const AttentionForwardArgs&);
void attention_backward(Context&, const AttentionBackwardArgs&);
void cached_attention(Context&, const CachedAttentionArgs&);
void store_q8(Context&, const Q8RowsArgs&);
void embed_forward(Context&, const EmbedArgs&);
void embed_backward(Context&, const EmbedBackwardArgs&);
void norm_forward(Context&, const NormArgs&);
void norm_backward(Context&, const NormBackwardArgs&);
void rope(Context&, const RopeArgs&);
void activation_forward(Context&, const ActivationArgs&);
void activation_backward(Context&, const ActivationBackwardArgs&);
void softcap(Context&, const SoftcapArgs&);
void softcap_backward(Context&, const SoftcapBackwardArgs&);
void cross_entropy(Context&, const CrossEntropyArgs&);
void add(Context&, const AddArgs&);
void copy(Context&, const CopyArgs&);
void column_sum(Context&, const ColumnSumArgs&);
void dropout(Context&, const DropoutArgs&);
double sum_squares(Context&, const float* x, int64_t n);
void adamw(Context&, const AdamArgs&);
LambNorms lamb(Context&, const LambArgs&);
void axpy(Context&, const AxpyArgs&);
}  // namespace reference

/// Vectors and threads; ctx.isa chooses AVX2 or AVX-512, ctx.pool the threads.
namespace cpu {
void gemm(Context&, const GemmArgs&);
void row_gemm(Context&, const RowGemmArgs&);
void quant_gemm(Context&, const QuantGemmArgs&);
void attention_forward(Context&, const AttentionForwardArgs&);
void attention_backward(Context&, const AttentionBackwardArgs&);
void cached_attention(Context&, const CachedAttentionArgs&);
void store_q8(Context&, const Q8RowsArgs&);
void embed_forward(Context&, const EmbedArgs&);
void embed_backward(Context&, const EmbedBackwardArgs&);
void norm_forward(Context&, const NormArgs&);
void norm_backward(Context&, const NormBackwardArgs&);
void rope(Context&, const RopeArgs&);
void activation_forward(Context&, const ActivationArgs&);
void activation_backward(Context&, const ActivationBackwardArgs&);
void softcap(Context&, const SoftcapArgs&);
void softcap_backward(Context&, const SoftcapBackwardArgs&);
void cross_entropy(Context&, const CrossEntropyArgs&);
void add(Context&, const AddArgs&);
void copy(Context&, const CopyArgs&);
void column_sum(Context&, const ColumnSumArgs&);
void dropout(Context&, const DropoutArgs&);
double sum_squares(Context&, const float* x, int64_t n);
void adamw(Context&, const AdamArgs&);
LambNorms lamb(Context&, const LambArgs&);
void axpy(Context&, const AxpyArgs&);
}  // namespace cpu

/// Shapes and dtypes that quant_gemm takes.
void check_quant_args(const QuantGemmArgs&);

}  // namespace espalier
