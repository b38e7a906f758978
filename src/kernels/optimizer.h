// The optimizers' loops over one parameter's memory (f32, n elements), and the reductions they need.
#pragma once
#include "base/context.h"
#include "tensor/view.h"

namespace espalier {

/// AdamW (Loshchilov, Hutter 2019), PyTorch's order of operations:
///   g' = grad_scale g; w -= lr*decay*w; m = b1 m + (1-b1) g'; v = b2 v + (1-b2) g'^2;
///   w -= lr * (m / bias1) / (sqrt(v / bias2) + eps), bias_i = 1 - b_i^step
/// Doubles, because 1 - beta2 loses four digits in f32 (0.999f); the loops round what they derive from them once.
struct AdamHyper {
  double lr, beta1, beta2, eps, decay, bias1, bias2, grad_scale;
};
struct AdamArgs {
  float* w;
  const float* g;
  float* m;
  float* v;
  int64_t n;
  AdamHyper hyper;
  uint16_t* w_bf16 = nullptr;  ///< compute copy (bf16 bits), refreshed when given
};

/// LAMB (You et al. 2020), first pass: moments as Adam's, update[i] = mhat/(sqrt(vhat)+eps) + decay*w.
/// Returns the squared norms of w and of the update; the second pass is axpy with lr * trust ratio.
struct LambArgs {
  const float* w;
  const float* g;
  float* m;
  float* v;
  float* update;
  int64_t n;
  AdamHyper hyper;
};
struct LambNorms {
  double w_squared, update_squared;
};

/// w = (1 - shrink) w + alpha x, refreshing the bf16 copy when given.
struct AxpyArgs {
  float* w;
  const float* x;
  int64_t n;
  float alpha, shrink = 0;
  uint16_t* w_bf16 = nullptr;
};

}  // namespace espalier
