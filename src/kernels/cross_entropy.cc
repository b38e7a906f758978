// Softmax cross entropy over rows of logits, loss and gradient in one call, so that probabilities are never stored.
#include <algorithm>
#include <cmath>
#include <limits>

#include <hwy/cache_control.h>

#include "kernels/element.h"
#include "kernels/entries.h"
#include "kernels/pieces.h"
#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cross_entropy.cc"
#include "hwy/foreach_target.h"
#include "kernels/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace espalier {
namespace HWY_NAMESPACE {
namespace {

struct SoftmaxSum {
  float max;
  double sum;  ///< of e^(x - max)
};

/// One sweep over memory: blocks that stay in the first cache give their maximum, then their sum; a new maximum
/// rescales what was summed before. From the lowest number on, so that -inf (a masked logit) counts nothing.
SoftmaxSum softmax_sum(const float* x, int64_t cols) {
  constexpr int64_t kBlock = 2048;
  SoftmaxSum r{std::numeric_limits<float>::lowest(), 0};
  for (int64_t at = 0; at < cols; at += kBlock) {
    const float* block = x + at;
    const int64_t n = std::min(kBlock, cols - at);
    const float max = max_vectors(n, r.max, [&](int64_t c, auto lanes) HWY_ATTR { return load(block + c, lanes); });
    if (max > r.max) {
      r.sum *= std::exp(double(r.max) - max);
      r.max = max;
    }
    const V center = splat(r.max);
    r.sum += sum_vectors<1>(n, [&](int64_t c, auto lanes, V* sums) HWY_ATTR {
      hwy::Prefetch(block + kBlock + c);  // the next block arrives while this one is computed on
      sums[0] = hn::Add(sums[0], keep(exp(hn::Sub(load(block + c, lanes), center)), 0, lanes));
    })[0];
  }
  return r;
}

/// The second sweep; the target's own entry is computed apart, because subtracting from a rounded number would not do.
template <class T>
void write_gradient(const float* x, T* dx, int64_t cols, int64_t target, SoftmaxSum s, float weight) {
  const float at_target = float((std::exp(double(x[target]) - s.max) / s.sum - 1) * weight);
  const V center = splat(s.max), scale = splat(float(weight / s.sum));
  for_vectors(cols, [&](int64_t c, auto lanes) HWY_ATTR {
    store(dx + c, hn::Mul(exp(hn::Sub(load(x + c, lanes), center)), scale), lanes);
  });
  dx[target] = T(at_target);
}

void cross_entropy_rows(const CrossEntropyArgs& a, int64_t begin, int64_t end) {
  const int64_t cols = a.logits.cols;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t target = a.targets[i];
    ESP_CHECK(target < cols, "target {} of {}", target, cols);
    const float* x = a.logits.row<float>(i);
    const SoftmaxSum s = target < 0 ? SoftmaxSum{} : softmax_sum(x, cols);
    a.loss[i] = target < 0 ? 0 : float(std::log(s.sum) + (double(s.max) - x[target]));
    if (a.dlogits.empty()) continue;
    visit_float(a.dlogits.dtype, [&](auto t) HWY_ATTR {
      auto* dx = a.dlogits.row<decltype(t)>(i);
      if (target < 0)
        std::fill_n(dx, cols, decltype(t)(0.0f));
      else
        write_gradient(x, dx, cols, target, s, a.weight ? a.weight[i] : a.scale);
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

void cross_entropy(Context&, const CrossEntropyArgs& a) {
  for (int64_t i = 0; i < a.logits.rows; ++i) {
    const float* x = a.logits.row<float>(i);
    const int64_t target = a.targets[i], cols = a.logits.cols;
    ESP_CHECK(target < cols, "target {} of {}", target, cols);
    const double max = *std::max_element(x, x + cols);
    double sum = 0;
    for (int64_t c = 0; c < cols; ++c) sum += std::exp(x[c] - max);
    a.loss[i] = target < 0 ? 0 : float(std::log(sum) + (max - x[target]));
    if (a.dlogits.empty()) continue;
    const double weight = target < 0 ? 0 : a.weight ? a.weight[i] : a.scale;
    for (int64_t c = 0; c < cols; ++c) {
      const double probability = target < 0 ? 0 : std::exp(x[c] - max) / sum;
      set_element(a.dlogits, i, c, float((probability - (c == target)) * weight));
    }
  }
}

}  // namespace reference

namespace cpu {

void cross_entropy(Context& ctx, const CrossEntropyArgs& a) {
  const auto rows = ESP_SIMD(ctx, cross_entropy_rows);
  for_rows(ctx, a.logits.rows, a.logits.cols, [&](int64_t begin, int64_t end) { rows(a, begin, end); });
}

}  // namespace cpu

}  // namespace espalier
#endif  // HWY_ONCE
