#include "ops/attention.h"

namespace espalier {
namespace {

template <class M>
struct Heads {
  M q, k, v;
};

template <class M>
Heads<M> split_heads(M qkv, const AttentionShape& s) {
  const int64_t q = s.heads * s.head_size, kv = s.kv_heads * s.head_size;
  ESP_CHECK(qkv.cols == q + 2 * kv, "qkv has {} columns, {} heads and {} key heads of {}", qkv.cols, s.heads,
            s.kv_heads, s.head_size);
  return {sub_cols(qkv, 0, q), sub_cols(qkv, q, kv), sub_cols(qkv, q + kv, kv)};
}

}  // namespace

Var attention(Tape& tape, const Var& qkv, const AttentionShape& shape) {
  Var out = tape.make(qkv.dtype(), qkv.rows(), shape.heads * shape.head_size);
  Var lse = tape.make(DType::kF32, shape.heads, qkv.rows());
  const auto in = split_heads<ConstMat>(qkv.value(), shape);
  tape.kernels().attention_forward(tape.ctx(), {shape, in.q, in.k, in.v, out.value(), lse.value()});
  tape.record([&tape, qkv, out, lse, shape] {
    const auto x = split_heads<ConstMat>(qkv.value(), shape);
    const auto dx = split_heads<Mat>(qkv.first_grad(qkv.dtype()), shape);
    tape.kernels().attention_backward(tape.ctx(), {shape, x.q, x.k, x.v, out.value(), lse.value(), out.grad(),
                                                   dx.q, dx.k, dx.v});
  });
  return out;
}

}  // namespace espalier
