// Token and position embeddings: rows gathered forward, gradients scattered backward.
#include <algorithm>

#include "kernels/element.h"
#include "kernels/entries.h"
#include "kernels/pieces.h"
#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/embed.cc"
#include "hwy/foreach_target.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace espalier {
namespace HWY_NAMESPACE {
namespace {

template <class T>
void embed_rows_of(const EmbedArgs& a, int64_t begin, int64_t end) {
  const V scale = splat(a.scale);
  for (int64_t i = begin; i < end; ++i) {
    const T* token = a.tokens.row<T>(a.ids[i]);
    const float* position = a.positions.empty() ? nullptr : a.positions.row<float>(a.position_ids[i]);
    float* out = a.out.row<float>(i);
    for_vectors(a.out.cols, [&](int64_t c, auto lanes) HWY_ATTR {
      const V x = hn::Mul(scale, load(token + c, lanes));
      store(out + c, position ? hn::Add(x, load(position + c, lanes)) : x, lanes);
    });
  }
}

void embed_rows(const EmbedArgs& a, int64_t begin, int64_t end) {
  if (a.tokens.dtype == DType::kBF16) return embed_rows_of<bf16>(a, begin, end);
  if (a.tokens.dtype == DType::kF16) return embed_rows_of<f16>(a, begin, end);
  ESP_CHECK(a.tokens.dtype == DType::kF32, "embedding of {}", dtype_name(a.tokens.dtype));
  embed_rows_of<float>(a, begin, end);
}

/// Columns [first, last) of every row, in order: whatever ids repeat, each sum has one order.
void embed_backward_columns(const EmbedBackwardArgs& a, int64_t first, int64_t last) {
  const V scale = splat(a.scale);
  for (int64_t i = 0; i < a.dout.rows; ++i) {
    const float* dout = a.dout.row<float>(i) + first;
    float* token = a.dtokens.row<float>(a.ids[i]) + first;
    float* position = a.dpositions.empty() ? nullptr : a.dpositions.row<float>(a.position_ids[i]) + first;
    for_vectors(last - first, [&](int64_t c, auto lanes) HWY_ATTR {
      const V d = load(dout + c, lanes);
      store(token + c, hn::MulAdd(scale, d, load(token + c, lanes)), lanes);
      if (position) store(position + c, hn::Add(d, load(position + c, lanes)), lanes);
    });
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace espalier
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace espalier {

namespace reference {

void embed_forward(Context&, const EmbedArgs& a) {
  for (int64_t i = 0; i < a.out.rows; ++i) {
    for (int64_t c = 0; c < a.out.cols; ++c) {
      float sum = a.scale * element(a.tokens, a.ids[i], c);
      if (!a.positions.empty()) sum += element(a.positions, a.position_ids[i], c);
      set_element(a.out, i, c, sum);
    }
  }
}

void embed_backward(Context&, const EmbedBackwardArgs& a) {
  for (int64_t i = 0; i < a.dout.rows; ++i) {
    for (int64_t c = 0; c < a.dout.cols; ++c) {
      const float d = element(a.dout, i, c);
      a.dtokens.row<float>(a.ids[i])[c] += a.scale * d;
      if (!a.dpositions.empty()) a.dpositions.row<float>(a.position_ids[i])[c] += d;
    }
  }
}

}  // namespace reference

namespace cpu {

void embed_forward(Context& ctx, const EmbedArgs& a) {
  const auto rows = ESP_SIMD(ctx, embed_rows);
  for_rows(ctx, a.out.rows, a.out.cols, [&](int64_t begin, int64_t end) { rows(a, begin, end); });
}

void embed_backward(Context& ctx, const EmbedBackwardArgs& a) {
  const auto columns = ESP_SIMD(ctx, embed_backward_columns);
  const int64_t grain = std::max<int64_t>(64, a.dout.cols / 16 / 64 * 64);  // about 16 tasks, in whole cache lines
  parallel_ranges(ctx.pool, a.dout.cols, grain, [&](int64_t first, int64_t last) { columns(a, first, last); });
}

}  // namespace cpu

}  // namespace espalier
#endif  // HWY_ONCE
