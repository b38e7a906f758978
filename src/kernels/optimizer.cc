// AdamW, LAMB's first pass, and axpy, each one sweep over a parameter's memory, its bf16 copy refreshed on the way.
#include <cmath>

#include "kernels/entries.h"

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
void adamw(Context& ctx, const AdamArgs& a) { reference::adamw(ctx, a); }
LambNorms lamb(Context& ctx, const LambArgs& a) { return reference::lamb(ctx, a); }
void axpy(Context& ctx, const AxpyArgs& a) { reference::axpy(ctx, a); }
}  // namespace cpu

}  // namespace espalier
