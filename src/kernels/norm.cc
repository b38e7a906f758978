// LayerNorm and RMSNorm. With xhat = (x - mean) * rstd and g = dy * (weight_offset + w):
//   dx = rstd * (g - mean(g) - xhat * mean(g * xhat)), without mean(g) for RMSNorm;  dw = dy * xhat;  db = dy
#include <cmath>

#include "kernels/element.h"
#include "kernels/entries.h"

namespace espalier {

namespace reference {

void norm_forward(Context&, const NormArgs& a) {
  const int64_t cols = a.x.cols;
  const float* w = a.w.row<float>(0);
  const float* b = a.b.empty() ? nullptr : a.b.row<float>(0);
  for (int64_t i = 0; i < a.x.rows; ++i) {
    double mean = 0, square = 0;
    if (!a.rms) {
      for (int64_t c = 0; c < cols; ++c) mean += element(a.x, i, c);
      mean /= double(cols);
    }
    for (int64_t c = 0; c < cols; ++c) square += (element(a.x, i, c) - mean) * (element(a.x, i, c) - mean);
    const double rstd = 1 / std::sqrt(square / double(cols) + double(a.eps));
    for (int64_t c = 0; c < cols; ++c) {
      const double xhat = (element(a.x, i, c) - mean) * rstd;
      set_element(a.y, i, c, float(xhat * (double(a.weight_offset) + w[c]) + (b ? b[c] : 0)));
    }
    if (a.stats.empty()) continue;
    a.stats.row<float>(i)[0] = float(mean);
    a.stats.row<float>(i)[1] = float(rstd);
  }
}

void norm_backward(Context&, const NormBackwardArgs& a) {
  const int64_t cols = a.x.cols;
  const float* w = a.w.row<float>(0);
  for (int64_t i = 0; i < a.x.rows; ++i) {
    const double mean = a.rms ? 0 : a.stats.row<float>(i)[0], rstd = a.stats.row<float>(i)[1];
    double sum_g = 0, sum_gx = 0;
    for (int64_t c = 0; c < cols; ++c) {
      const double xhat = (element(a.x, i, c) - mean) * rstd, dy = element(a.dy, i, c);
      const double g = dy * (double(a.weight_offset) + w[c]);
      sum_g += g;
      sum_gx += g * xhat;
      if (!a.dw.empty()) a.dw.row<float>(0)[c] += float(dy * xhat);
      if (!a.db.empty()) a.db.row<float>(0)[c] += float(dy);
    }
    const double mean_g = a.rms ? 0 : sum_g / double(cols), mean_gx = sum_gx / double(cols);
    for (int64_t c = 0; c < cols; ++c) {
      const double xhat = (element(a.x, i, c) - mean) * rstd;
      const double g = element(a.dy, i, c) * (double(a.weight_offset) + w[c]);
      const double dx = rstd * (g - mean_g - xhat * mean_gx);
      set_element(a.dx, i, c, float(dx + (a.accumulate ? element(a.dx, i, c) : 0)));
    }
  }
}

}  // namespace reference
namespace cpu {
void norm_forward(Context& ctx, const NormArgs& a) { reference::norm_forward(ctx, a); }
void norm_backward(Context& ctx, const NormBackwardArgs& a) { reference::norm_backward(ctx, a); }
}  // namespace cpu

}  // namespace espalier
