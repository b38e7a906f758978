// Matrix products, plain: the oracle.
#include "kernels/element.h"
#include "kernels/entries.h"

namespace espalier::reference {

void gemm(Context&, const GemmArgs& g) {
  const int64_t terms = g.a_transposed ? g.a.rows : g.a.cols;
  for (int64_t i = 0; i < g.c.rows; ++i)
    for (int64_t j = 0; j < g.c.cols; ++j) {
      double sum = g.accumulate ? element(g.c, i, j) : 0;
      for (int64_t k = 0; k < terms; ++k)
        sum += double(g.a_transposed ? element(g.a, k, i) : element(g.a, i, k)) *
               (g.b_transposed ? element(g.b, j, k) : element(g.b, k, j));
      if (!g.bias.empty()) sum += element(g.bias, 0, j);
      set_element(g.c, i, j, float(sum));
    }
}

void row_gemm(Context& ctx, const RowGemmArgs& g) {
  gemm(ctx, {.a = g.x, .b = g.w, .b_transposed = true, .c = g.y, .bias = g.bias});
}

}  // namespace espalier::reference
