// Sums over many numbers: the gradient of a bias, the norm of a gradient.
#include "kernels/element.h"
#include "kernels/entries.h"

namespace espalier {

namespace reference {

void column_sum(Context&, const ColumnSumArgs& a) {
  float* sum = a.sum.row<float>(0);
  for (int64_t c = 0; c < a.x.cols; ++c) {
    double total = 0;
    for (int64_t i = 0; i < a.x.rows; ++i) total += element(a.x, i, c);
    sum[c] += float(total);
  }
}

double sum_squares(Context&, const float* x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += double(x[i]) * x[i];
  return sum;
}

}  // namespace reference
namespace cpu {
void column_sum(Context& ctx, const ColumnSumArgs& a) { reference::column_sum(ctx, a); }
double sum_squares(Context& ctx, const float* x, int64_t n) { return reference::sum_squares(ctx, x, n); }
}  // namespace cpu

}  // namespace espalier
