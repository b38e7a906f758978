// The soft cap of logits (Gemma 2): y = cap * tanh(x / cap) keeps |y| below cap and leaves small numbers as they are.
#include <cmath>

#include "kernels/element.h"
#include "kernels/entries.h"
#include "kernels/pieces.h"
#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/softcap.cc"
#include "hwy/foreach_target.h"
#include "kernels/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace espalier {
namespace HWY_NAMESPACE {
namespace {

void softcap_run(const SoftcapArgs& a, int64_t row, int64_t begin, int64_t count) {
  const V up = splat(a.cap), down = splat(1 / a.cap);
  float* x = a.x.row<float>(row) + begin;
  for_vectors(count, [&](int64_t c, auto lanes) HWY_ATTR {
    store(x + c, hn::Mul(up, tanh(hn::Mul(down, load(x + c, lanes)))), lanes);
  });
}

void softcap_backward_run(const SoftcapBackwardArgs& a, int64_t row, int64_t begin, int64_t count) {
  const V down = splat(1 / a.cap), one = splat(1);
  const float* y = a.y.row<float>(row) + begin;
  visit_float(a.dy.dtype, [&](auto ty) HWY_ATTR {
    visit_float(a.dx.dtype, [&](auto tx) HWY_ATTR {
      const auto* dy = a.dy.row<decltype(ty)>(row) + begin;
      auto* dx = a.dx.row<decltype(tx)>(row) + begin;
      for_vectors(count, [&](int64_t c, auto lanes) HWY_ATTR {
        const V bent = hn::Mul(down, load(y + c, lanes));
        store(dx + c, hn::Mul(load(dy + c, lanes), hn::NegMulAdd(bent, bent, one)), lanes);
      });
    });
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace espalier
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace espalier {

namespace reference {

void softcap(Context&, const SoftcapArgs& a) {
  for (int64_t i = 0; i < a.x.rows; ++i)
    for (int64_t c = 0; c < a.x.cols; ++c)
      set_element(a.x, i, c, float(a.cap * std::tanh(double(element(a.x, i, c)) / a.cap)));
}

void softcap_backward(Context&, const SoftcapBackwardArgs& a) {
  for (int64_t i = 0; i < a.y.rows; ++i)
    for (int64_t c = 0; c < a.y.cols; ++c) {
      const double bent = double(element(a.y, i, c)) / a.cap;
      set_element(a.dx, i, c, float(element(a.dy, i, c) * (1 - bent * bent)));
    }
}

}  // namespace reference

namespace cpu {

void softcap(Context& ctx, const SoftcapArgs& a) {
  const auto run = ESP_SIMD(ctx, softcap_run);
  for_runs(ctx, a.x.rows, a.x.cols, all_contiguous(a.x),
           [&](int64_t row, int64_t begin, int64_t count) { run(a, row, begin, count); });
}

void softcap_backward(Context& ctx, const SoftcapBackwardArgs& a) {
  const auto run = ESP_SIMD(ctx, softcap_backward_run);
  for_runs(ctx, a.y.rows, a.y.cols, all_contiguous(a.y, a.dy, a.dx),
           [&](int64_t row, int64_t begin, int64_t count) { run(a, row, begin, count); });
}

}  // namespace cpu

}  // namespace espalier
#endif  // HWY_ONCE
