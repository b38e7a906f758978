// GELU (exact and tanh), SiLU, ReLU, plain and gated (GEGLU, SwiGLU, ReGLU; Shazeer 2020), forward and backward.
//   gelu(x) = x/2 (1 + erf(x / sqrt 2));  gelu_tanh(x) = x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3), since
//   (1 + tanh u) / 2 = sigmoid(2u);  silu(x) = x sigmoid(x)
#include <cmath>
#include <type_traits>

#include "kernels/element.h"
#include "kernels/entries.h"
#include "kernels/pieces.h"
#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/activation.cc"
#include "hwy/foreach_target.h"
#include "kernels/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace espalier {
namespace HWY_NAMESPACE {
namespace {

struct ValueSlope {
  V value, slope;
};

/// act(x) and act'(x); where only the value is used the compiler drops the rest.
template <Activation kind>
HWY_INLINE ValueSlope activation(V x) {
  constexpr float kSqrtHalf = 0.70710678f, kInvSqrt2Pi = 0.39894228f, kCubic = 0.044715f;
  const V one = splat(1), half = splat(0.5f);
  if constexpr (kind == Activation::kGelu) {
    const V cdf = hn::MulAdd(half, erf(hn::Mul(x, splat(kSqrtHalf))), half);
    const V pdf = hn::Mul(splat(kInvSqrt2Pi), exp(hn::Mul(hn::Mul(x, x), splat(-0.5f))));
    return {hn::Mul(x, cdf), hn::MulAdd(x, pdf, cdf)};
  } else if constexpr (kind == Activation::kGeluTanh) {
    constexpr float kTwice = 4 * kInvSqrt2Pi;  // 2 sqrt(2 / pi)
    const V square = hn::Mul(x, x);
    const V s = sigmoid(hn::Mul(x, hn::MulAdd(square, splat(kTwice * kCubic), splat(kTwice))));
    const V slope_in = hn::MulAdd(square, splat(3 * kTwice * kCubic), splat(kTwice));
    return {hn::Mul(x, s), hn::MulAdd(hn::Mul(hn::Mul(x, s), hn::Sub(one, s)), slope_in, s)};
  } else if constexpr (kind == Activation::kSilu) {
    const V s = sigmoid(x);
    return {hn::Mul(x, s), hn::MulAdd(hn::Mul(x, s), hn::Sub(one, s), s)};
  } else {
    const auto positive = hn::Gt(x, hn::Zero(F32()));
    return {hn::IfThenElseZero(positive, x), hn::IfThenElseZero(positive, one)};
  }
}

template <class F>
HWY_INLINE void visit_activation(Activation kind, const F& fn) {
  switch (kind) {
    case Activation::kGelu:
      return fn(std::integral_constant<Activation, Activation::kGelu>());
    case Activation::kGeluTanh:
      return fn(std::integral_constant<Activation, Activation::kGeluTanh>());
    case Activation::kSilu:
      return fn(std::integral_constant<Activation, Activation::kSilu>());
    case Activation::kRelu:
      return fn(std::integral_constant<Activation, Activation::kRelu>());
  }
}

template <Activation kind, class T>
void forward_run(const T* gate, const T* up, T* y, int64_t count) {
  for_vectors(count, [&](int64_t c, auto lanes) HWY_ATTR {
    const V value = activation<kind>(load(gate + c, lanes)).value;
    store(y + c, up ? hn::Mul(value, load(up + c, lanes)) : value, lanes);
  });
}

/// dgate may be gate and dup may be up: both are read before either is written.
template <Activation kind, class T>
void backward_run(const T* gate, const T* up, const T* dy, T* dgate, T* dup, int64_t count) {
  for_vectors(count, [&](int64_t c, auto lanes) HWY_ATTR {
    const auto [value, slope] = activation<kind>(load(gate + c, lanes));
    const V d = load(dy + c, lanes);
    V through = hn::Mul(d, slope);
    if (up) {
      through = hn::Mul(through, load(up + c, lanes));
      store(dup + c, hn::Mul(d, value), lanes);
    }
    store(dgate + c, through, lanes);
  });
}

void activation_run(const ActivationArgs& a, int64_t row, int64_t begin, int64_t count) {
  visit_activation(a.kind, [&](auto kind) HWY_ATTR {
    visit_float(a.x.dtype, [&](auto t) HWY_ATTR {
      using T = decltype(t);
      const T* x = a.x.row<T>(row) + begin;
      forward_run<decltype(kind)::value, T>(x, a.gated ? x + a.y.cols : nullptr, a.y.row<T>(row) + begin, count);
    });
  });
}

void activation_backward_run(const ActivationBackwardArgs& a, int64_t row, int64_t begin, int64_t count) {
  visit_activation(a.kind, [&](auto kind) HWY_ATTR {
    visit_float(a.x.dtype, [&](auto t) HWY_ATTR {
      using T = decltype(t);
      const T* x = a.x.row<T>(row) + begin;
      T* dx = a.dx.row<T>(row) + begin;
      backward_run<decltype(kind)::value, T>(x, a.gated ? x + a.dy.cols : nullptr, a.dy.row<T>(row) + begin, dx,
                                             dx + a.dy.cols, count);
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

struct ValueSlope {
  double value, slope;
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

ValueSlope activation(Activation kind, double x) {
  constexpr double kSqrtHalf = 0.70710678118654752, kInvSqrt2Pi = 0.39894228040143268, kCubic = 0.044715;
  switch (kind) {
    case Activation::kGelu: {
      const double cdf = 0.5 * std::erfc(-x * kSqrtHalf);
      return {x * cdf, cdf + x * kInvSqrt2Pi * std::exp(-0.5 * x * x)};
    }
    case Activation::kGeluTanh: {
      constexpr double kTwoSqrt2OverPi = 4 * kInvSqrt2Pi;  // 2 sqrt(2 / pi)
      const double s = sigmoid(kTwoSqrt2OverPi * (x + kCubic * x * x * x));
      return {x * s, s + x * s * (1 - s) * kTwoSqrt2OverPi * (1 + 3 * kCubic * x * x)};
    }
    case Activation::kSilu: {
      const double s = sigmoid(x);
      return {x * s, s + x * s * (1 - s)};
    }
    case Activation::kRelu:
      return {x > 0 ? x : 0, x > 0 ? 1.0 : 0.0};
  }
  return {};
}

}  // namespace

void activation_forward(Context&, const ActivationArgs& a) {
  for (int64_t i = 0; i < a.y.rows; ++i) {
    for (int64_t c = 0; c < a.y.cols; ++c) {
      const double up = a.gated ? element(a.x, i, a.y.cols + c) : 1;
      set_element(a.y, i, c, float(activation(a.kind, element(a.x, i, c)).value * up));
    }
  }
}

void activation_backward(Context&, const ActivationBackwardArgs& a) {
  for (int64_t i = 0; i < a.dy.rows; ++i) {
    for (int64_t c = 0; c < a.dy.cols; ++c) {
      const auto [value, slope] = activation(a.kind, element(a.x, i, c));
      const double dy = element(a.dy, i, c), up = a.gated ? element(a.x, i, a.dy.cols + c) : 1;
      set_element(a.dx, i, c, float(dy * up * slope));
      if (a.gated) set_element(a.dx, i, a.dy.cols + c, float(dy * value));
    }
  }
}

}  // namespace reference

namespace cpu {

void activation_forward(Context& ctx, const ActivationArgs& a) {
  ESP_CHECK(a.x.dtype == a.y.dtype, "x {}, y {}", dtype_name(a.x.dtype), dtype_name(a.y.dtype));
  const auto run = ESP_SIMD(ctx, activation_run);
  for_runs(ctx, a.y.rows, a.y.cols, !a.gated && all_contiguous(a.x, a.y),
           [&](int64_t row, int64_t begin, int64_t count) { run(a, row, begin, count); });
}

void activation_backward(Context& ctx, const ActivationBackwardArgs& a) {
  ESP_CHECK(a.x.dtype == a.dy.dtype && a.x.dtype == a.dx.dtype, "x {}, dy {}, dx {}", dtype_name(a.x.dtype),
            dtype_name(a.dy.dtype), dtype_name(a.dx.dtype));
  const auto run = ESP_SIMD(ctx, activation_backward_run);
  for_runs(ctx, a.dy.rows, a.dy.cols, !a.gated && all_contiguous(a.x, a.dy, a.dx),
           [&](int64_t row, int64_t begin, int64_t count) { run(a, row, begin, count); });
}

}  // namespace cpu

}  // namespace espalier
#endif  // HWY_ONCE
