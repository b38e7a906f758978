// AdamW, LAMB's first pass, and axpy, each one sweep over a parameter's memory, its bf16 copy refreshed on the way.
#include <cmath>

#include "kernels/entries.h"
#include "kernels/pieces.h"
#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimizer.cc"
#include "hwy/foreach_target.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace espalier {
namespace HWY_NAMESPACE {
namespace {

/// AdamHyper as the loop wants it, rounded to f32 once.
struct Constants {
  V grad_scale, beta1, rest1, beta2, rest2, root_bias2, eps;
  explicit Constants(const AdamHyper& h)
      : grad_scale(splat(float(h.grad_scale))),
        beta1(splat(float(h.beta1))),
        rest1(splat(float(1 - h.beta1))),
        beta2(splat(float(h.beta2))),
        rest2(splat(float(1 - h.beta2))),
        root_bias2(splat(float(1 / std::sqrt(h.bias2)))),
        eps(splat(float(h.eps))) {}
};

/// Updates both moments and returns m / (sqrt(vhat) + eps), still to be divided by bias1.
template <class Lanes>
HWY_INLINE V moments(const Constants& k, const float* g, float* m, float* v, Lanes lanes) {
  const V scaled = hn::Mul(k.grad_scale, load(g, lanes));
  const V first = hn::MulAdd(k.beta1, load(m, lanes), hn::Mul(k.rest1, scaled));
  const V second = hn::MulAdd(k.beta2, load(v, lanes), hn::Mul(k.rest2, hn::Mul(scaled, scaled)));
  store(m, first, lanes);
  store(v, second, lanes);
  return hn::Div(first, hn::MulAdd(hn::Sqrt(second), k.root_bias2, k.eps));
}

template <class Lanes>
HWY_INLINE void store_weight(float* w, uint16_t* copy, V x, Lanes lanes) {
  store(w, x, lanes);
  if (copy) store(reinterpret_cast<bf16*>(copy), x, lanes);
}

void adamw_run(const AdamArgs& a, int64_t begin, int64_t end) {
  const AdamHyper& h = a.hyper;
  const Constants k(h);
  const V shrink = splat(float(1 - h.lr * h.decay)), step = splat(float(h.lr / h.bias1));
  for_vectors(end - begin, [&](int64_t c, auto lanes) HWY_ATTR {
    const int64_t i = begin + c;
    const V ratio = moments(k, a.g + i, a.m + i, a.v + i, lanes);
    const V w = hn::NegMulAdd(step, ratio, hn::Mul(shrink, load(a.w + i, lanes)));
    store_weight(a.w + i, a.w_bf16 ? a.w_bf16 + i : nullptr, w, lanes);
  });
}

std::array<double, 2> lamb_run(const LambArgs& a, int64_t begin, int64_t end) {
  const Constants k(a.hyper);
  const V decay = splat(float(a.hyper.decay)), unbias1 = splat(float(1 / a.hyper.bias1));
  SquareSum w_sum, update_sum;
  for_vectors(end - begin, [&](int64_t c, auto lanes) HWY_ATTR {
    const int64_t i = begin + c;
    const V w = load(a.w + i, lanes);
    const V ratio = moments(k, a.g + i, a.m + i, a.v + i, lanes);
    const V update = keep(hn::MulAdd(ratio, unbias1, hn::Mul(decay, w)), 0, lanes);  // 0 / (0 + 0) beyond the tail
    store(a.update + i, update, lanes);
    w_sum.add(w);
    update_sum.add(update);
  });
  return {w_sum.total(), update_sum.total()};
}

void axpy_run(const AxpyArgs& a, int64_t begin, int64_t end) {
  const V rest = splat(1 - a.shrink), alpha = splat(a.alpha);
  for_vectors(end - begin, [&](int64_t c, auto lanes) HWY_ATTR {
    const int64_t i = begin + c;
    const V w = hn::MulAdd(alpha, load(a.x + i, lanes), hn::Mul(rest, load(a.w + i, lanes)));
    store_weight(a.w + i, a.w_bf16 ? a.w_bf16 + i : nullptr, w, lanes);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace espalier
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace espalier {

namespace reference {
namespace {

/// Updates both moments of element i with its scaled gradient and returns mhat / (sqrt(vhat) + eps).
double moments(const AdamHyper& h, float g, float& m, float& v) {
  const double scaled = h.grad_scale * g;
  m = float(h.beta1 * m + (1 - h.beta1) * scaled);
  v = float(h.beta2 * v + (1 - h.beta2) * scaled * scaled);
  return (m / h.bias1) / (std::sqrt(v / h.bias2) + h.eps);
}

}  // namespace

void adamw(Context&, const AdamArgs& a) {
  const AdamHyper& h = a.hyper;
  for (int64_t i = 0; i < a.n; ++i) {
    const double step = moments(h, a.g[i], a.m[i], a.v[i]);
    a.w[i] = float((1 - h.lr * h.decay) * a.w[i] - h.lr * step);
    if (a.w_bf16) a.w_bf16[i] = bf16(a.w[i]).bits;
  }
}

LambNorms lamb(Context&, const LambArgs& a) {
  LambNorms norms{};
  for (int64_t i = 0; i < a.n; ++i) {
    a.update[i] = float(moments(a.hyper, a.g[i], a.m[i], a.v[i]) + a.hyper.decay * a.w[i]);
    norms.w_squared += double(a.w[i]) * a.w[i];
    norms.update_squared += double(a.update[i]) * a.update[i];
  }
  return norms;
}

void axpy(Context&, const AxpyArgs& a) {
  for (int64_t i = 0; i < a.n; ++i) {
    a.w[i] = (1 - a.shrink) * a.w[i] + a.alpha * a.x[i];
    if (a.w_bf16) a.w_bf16[i] = bf16(a.w[i]).bits;
  }
}

}  // namespace reference

namespace cpu {

void adamw(Context& ctx, const AdamArgs& a) {
  const auto run = ESP_SIMD(ctx, adamw_run);
  parallel_ranges(ctx.pool, a.n, kPieceElements, [&](int64_t begin, int64_t end) { run(a, begin, end); });
}

LambNorms lamb(Context& ctx, const LambArgs& a) {
  const auto run = ESP_SIMD(ctx, lamb_run);
  const auto total = sum_pieces<2>(ctx, a.n, [&](int64_t begin, int64_t end) { return run(a, begin, end); });
  return {total[0], total[1]};
}

void axpy(Context& ctx, const AxpyArgs& a) {
  const auto run = ESP_SIMD(ctx, axpy_run);
  parallel_ranges(ctx.pool, a.n, kPieceElements, [&](int64_t begin, int64_t end) { run(a, begin, end); });
}

}  // namespace cpu

}  // namespace espalier
#endif  // HWY_ONCE
