// LayerNorm and RMSNorm. With xhat = (x - mean) * rstd and g = dy * (weight_offset + w):
//   dx = rstd * (g - mean(g) - xhat * mean(g * xhat)), without mean(g) for RMSNorm;  dw = dy * xhat;  db = dy
#include <cmath>

#include "kernels/element.h"
#include "kernels/entries.h"
#include "kernels/pieces.h"
#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/norm.cc"
#include "hwy/foreach_target.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace espalier {
namespace HWY_NAMESPACE {
namespace {

struct RowStats {
  float mean, rstd;
};

template <class X>
RowStats row_stats(const X* x, int64_t cols, bool rms, float eps) {
  float mean = 0;
  if (!rms) {
    mean = sum_vectors<1>(cols, [&](int64_t c, auto lanes, V* sums) HWY_ATTR {
      sums[0] = hn::Add(sums[0], load(x + c, lanes));
    })[0] / float(cols);
  }
  const V center = splat(mean);
  const float square = sum_vectors<1>(cols, [&](int64_t c, auto lanes, V* sums) HWY_ATTR {
    const V t = keep(hn::Sub(load(x + c, lanes), center), 0, lanes);
    sums[0] = hn::MulAdd(t, t, sums[0]);
  })[0];
  return {mean, 1 / std::sqrt(square / float(cols) + eps)};
}

template <class X, class Y>
void norm_row(const NormArgs& a, int64_t i, int64_t head) {
  const int64_t cols = a.w.cols;
  const X* x = a.x.row<X>(i) + head * cols;
  Y* y = a.y.row<Y>(i) + head * cols;
  const float* w = a.w.row<float>(0);
  const float* b = a.b.empty() ? nullptr : a.b.row<float>(0);
  const auto [mean, rstd] = row_stats(x, cols, a.rms, a.eps);
  const V center = splat(mean), scale = splat(rstd), offset = splat(a.weight_offset);
  for_vectors(cols, [&](int64_t c, auto lanes) HWY_ATTR {
    const V xhat = hn::Mul(hn::Sub(load(x + c, lanes), center), scale);
    const V weight = hn::Add(offset, load(w + c, lanes));
    store(y + c, b ? hn::MulAdd(xhat, weight, load(b + c, lanes)) : hn::Mul(xhat, weight), lanes);
  });
  if (a.stats.empty()) return;
  a.stats.row<float>(i)[2 * head] = mean;
  a.stats.row<float>(i)[2 * head + 1] = rstd;
}

void norm_forward_rows(const NormArgs& a, int64_t begin, int64_t end) {
  visit_float(a.x.dtype, [&](auto x) HWY_ATTR {
    visit_float(a.y.dtype, [&](auto y) HWY_ATTR {
      for (int64_t i = begin; i < end; ++i)
        for (int64_t head = 0; head < a.heads; ++head) norm_row<decltype(x), decltype(y)>(a, i, head);
    });
  });
}

/// The dx of a row, or of one head of it, and its share of dw = sums[0 ... cols) and db = sums[cols ... 2 cols).
/// The row stays in cache between its two passes.
template <class DY, class X, class DX>
void norm_backward_row(const NormBackwardArgs& a, int64_t i, int64_t head, float* sums) {
  const int64_t cols = a.w.cols;
  const X* x = a.x.row<X>(i) + head * cols;
  const DY* dy = a.dy.row<DY>(i) + head * cols;
  const float* w = a.w.row<float>(0);
  DX* dx = a.dx.row<DX>(i) + head * cols;
  const float* stats = a.stats.row<float>(i) + 2 * head;
  const V center = splat(a.rms ? 0 : stats[0]), rstd = splat(stats[1]);
  const V offset = splat(a.weight_offset);
  const auto xhat_at = [&](int64_t c, auto lanes) HWY_ATTR {
    return hn::Mul(hn::Sub(load(x + c, lanes), center), rstd);
  };
  const auto [sum_g, sum_gx] = sum_vectors<2>(cols, [&](int64_t c, auto lanes, V* s) HWY_ATTR {
    const V xhat = xhat_at(c, lanes), d = load(dy + c, lanes);  // d is zero beyond the tail
    const V g = hn::Mul(d, hn::Add(offset, load(w + c, lanes))), dw = hn::Mul(d, xhat);
    s[0] = hn::Add(s[0], g);
    s[1] = hn::MulAdd(g, xhat, s[1]);
    store(sums + c, hn::Add(load(sums + c, lanes), dw), lanes);
    store(sums + cols + c, hn::Add(load(sums + cols + c, lanes), d), lanes);
  });
  const V mean_g = splat(a.rms ? 0 : sum_g / float(cols)), mean_gx = splat(sum_gx / float(cols));
  for_vectors(cols, [&](int64_t c, auto lanes) HWY_ATTR {
    const V g = hn::Mul(load(dy + c, lanes), hn::Add(offset, load(w + c, lanes)));
    const V centered = hn::NegMulAdd(xhat_at(c, lanes), mean_gx, hn::Sub(g, mean_g));
    const V before = a.accumulate ? load(dx + c, lanes) : hn::Zero(F32());
    store(dx + c, hn::MulAdd(rstd, centered, before), lanes);
  });
}

void norm_backward_rows(const NormBackwardArgs& a, int64_t begin, int64_t end, float* sums) {
  visit_float(a.dy.dtype, [&](auto dy) HWY_ATTR {
    visit_float(a.x.dtype, [&](auto x) HWY_ATTR {
      visit_float(a.dx.dtype, [&](auto dx) HWY_ATTR {
        for (int64_t i = begin; i < end; ++i)
          for (int64_t head = 0; head < a.heads; ++head)
            norm_backward_row<decltype(dy), decltype(x), decltype(dx)>(a, i, head, sums);
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
namespace {

// One head of one row.
void norm_piece(const NormArgs& a, int64_t i, int64_t head) {
  const int64_t cols = a.w.cols, first = head * cols;
  const float* w = a.w.row<float>(0);
  const float* b = a.b.empty() ? nullptr : a.b.row<float>(0);
  double mean = 0, square = 0;
  const auto x = [&](int64_t c) { return double(element(a.x, i, first + c)); };
  if (!a.rms) {
    for (int64_t c = 0; c < cols; ++c) mean += x(c);
    mean /= double(cols);
  }
  for (int64_t c = 0; c < cols; ++c) square += (x(c) - mean) * (x(c) - mean);
  const double rstd = 1 / std::sqrt(square / double(cols) + double(a.eps));
  for (int64_t c = 0; c < cols; ++c)
    set_element(a.y, i, first + c, float((x(c) - mean) * rstd * (double(a.weight_offset) + w[c]) + (b ? b[c] : 0)));
  if (a.stats.empty()) return;
  a.stats.row<float>(i)[2 * head] = float(mean);
  a.stats.row<float>(i)[2 * head + 1] = float(rstd);
}

void norm_piece_backward(const NormBackwardArgs& a, int64_t i, int64_t head) {
  const int64_t cols = a.w.cols, first = head * cols;
  const float* w = a.w.row<float>(0);
  const float* stats = a.stats.row<float>(i) + 2 * head;
  const double mean = a.rms ? 0 : stats[0], rstd = stats[1];
  const auto xhat = [&](int64_t c) { return (element(a.x, i, first + c) - mean) * rstd; };
  const auto g = [&](int64_t c) { return element(a.dy, i, first + c) * (double(a.weight_offset) + w[c]); };
  double sum_g = 0, sum_gx = 0;
  for (int64_t c = 0; c < cols; ++c) {
    const double dy = element(a.dy, i, first + c);
    sum_g += g(c);
    sum_gx += g(c) * xhat(c);
    if (!a.dw.empty()) a.dw.row<float>(0)[c] += float(dy * xhat(c));
    if (!a.db.empty()) a.db.row<float>(0)[c] += float(dy);
  }
  const double mean_g = a.rms ? 0 : sum_g / double(cols), mean_gx = sum_gx / double(cols);
  for (int64_t c = 0; c < cols; ++c) {
    const double dx = rstd * (g(c) - mean_g - xhat(c) * mean_gx);
    set_element(a.dx, i, first + c, float(dx + (a.accumulate ? element(a.dx, i, first + c) : 0)));
  }
}

}  // namespace

void norm_forward(Context&, const NormArgs& a) {
  for (int64_t i = 0; i < a.x.rows; ++i)
    for (int64_t head = 0; head < a.heads; ++head) norm_piece(a, i, head);
}

void norm_backward(Context&, const NormBackwardArgs& a) {
  for (int64_t i = 0; i < a.x.rows; ++i)
    for (int64_t head = 0; head < a.heads; ++head) norm_piece_backward(a, i, head);
}

}  // namespace reference

namespace cpu {

void norm_forward(Context& ctx, const NormArgs& a) {
  ESP_CHECK(a.x.cols == a.heads * a.w.cols, "{} columns, {} heads of {}", a.x.cols, a.heads, a.w.cols);
  const auto rows = ESP_SIMD(ctx, norm_forward_rows);
  for_rows(ctx, a.x.rows, a.x.cols, [&](int64_t begin, int64_t end) { rows(a, begin, end); });
}

void norm_backward(Context& ctx, const NormBackwardArgs& a) {
  ESP_CHECK(a.x.cols == a.heads * a.w.cols, "{} columns, {} heads of {}", a.x.cols, a.heads, a.w.cols);
  const auto rows = ESP_SIMD(ctx, norm_backward_rows);
  const std::array targets = {a.dw.empty() ? nullptr : a.dw.row<float>(0), a.db.empty() ? nullptr : a.db.row<float>(0)};
  reduce_rows(ctx, a.x.rows, a.w.cols, targets,
              [&](int64_t begin, int64_t end, float* sums) { rows(a, begin, end, sums); });
}

}  // namespace cpu

}  // namespace espalier
#endif  // HWY_ONCE
