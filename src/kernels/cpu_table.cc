#include "kernels/entries.h"
#include "kernels/kernels.h"

namespace espalier {

const Kernels& cpu_kernels() {
  using namespace cpu;
  static constexpr Kernels kTable = {
      .gemm = gemm,
      .row_gemm = row_gemm,
      .quant_gemm = quant_gemm,
      .attention_forward = attention_forward,
      .attention_backward = attention_backward,
      .cached_attention = cached_attention,
      .store_q8 = store_q8,
      .embed_forward = embed_forward,
      .embed_backward = embed_backward,
      .norm_forward = norm_forward,
      .norm_backward = norm_backward,
      .rope = rope,
      .activation_forward = activation_forward,
      .activation_backward = activation_backward,
      .softcap = softcap,
      .softcap_backward = softcap_backward,
      .cross_entropy = cross_entropy,
      .add = add,
      .copy = copy,
      .column_sum = column_sum,
      .dropout = dropout,
      .sum_squares = sum_squares,
      .adamw = adamw,
      .lamb = lamb,
      .axpy = axpy,
  };
  return kTable;
}

}  // namespace espalier
