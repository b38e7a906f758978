// Sums over many numbers: the gradient of a bias, the norm of a gradient.
#include "kernels/element.h"
#include "kernels/entries.h"
#include "kernels/pieces.h"
#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce.cc"
#include "hwy/foreach_target.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace espalier {
namespace HWY_NAMESPACE {
namespace {

/// Four rows at a time, so that the sums are read and written a quarter as often as x.
template <class T>
void add_rows(const ConstMat& x, int64_t begin, int64_t end, float* sums) {
  int64_t i = begin;
  for (; i + 4 <= end; i += 4) {
    const T *r0 = x.row<T>(i), *r1 = x.row<T>(i + 1), *r2 = x.row<T>(i + 2), *r3 = x.row<T>(i + 3);
    for_vectors(x.cols, [&](int64_t c, auto lanes) HWY_ATTR {
      const V four = hn::Add(hn::Add(load(r0 + c, lanes), load(r1 + c, lanes)),
                             hn::Add(load(r2 + c, lanes), load(r3 + c, lanes)));
      store(sums + c, hn::Add(load(sums + c, lanes), four), lanes);
    });
  }
  for (; i < end; ++i) {
    const T* row = x.row<T>(i);
    for_vectors(x.cols, [&](int64_t c, auto lanes) HWY_ATTR {
      store(sums + c, hn::Add(load(sums + c, lanes), load(row + c, lanes)), lanes);
    });
  }
}

void column_sum_rows(const ConstMat& x, int64_t begin, int64_t end, float* sums) {
  visit_float(x.dtype, [&](auto t) HWY_ATTR { add_rows<decltype(t)>(x, begin, end, sums); });
}

/// Two places at once: a single stream of reads does not fill the memory's pipe.
double sum_squares_run(const float* x, int64_t n) {
  const int64_t half = n / 2 / kLanes * kLanes;
  SquareSum a, b;
  for (int64_t i = 0; i < half; i += kLanes) {
    a.add(load(x + i, Whole()));
    b.add(load(x + half + i, Whole()));
  }
  const float* rest = x + 2 * half;
  for_vectors(n - 2 * half, [&](int64_t i, auto lanes) HWY_ATTR { a.add(load(rest + i, lanes)); });
  return a.total() + b.total();
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace espalier
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
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

void column_sum(Context& ctx, const ColumnSumArgs& a) {
  const auto rows = ESP_SIMD(ctx, column_sum_rows);
  reduce_rows(ctx, a.x.rows, a.x.cols, std::array{a.sum.row<float>(0)},
              [&](int64_t begin, int64_t end, float* sums) { rows(a.x, begin, end, sums); });
}

double sum_squares(Context& ctx, const float* x, int64_t n) {
  const auto run = ESP_SIMD(ctx, sum_squares_run);
  const auto total = sum_pieces<1>(ctx, n, [&](int64_t begin, int64_t end) {
    return std::array{run(x + begin, end - begin)};
  });
  return total[0];
}

}  // namespace cpu

}  // namespace espalier
#endif  // HWY_ONCE
