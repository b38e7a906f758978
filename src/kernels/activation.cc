// GELU (exact and tanh), SiLU, ReLU, plain and gated (GEGLU, SwiGLU, ReGLU; Shazeer 2020), forward and backward.
//   gelu(x) = x/2 (1 + erf(x / sqrt 2));  gelu_tanh(x) = x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3), since
//   (1 + tanh u) / 2 = sigmoid(2u);  silu(x) = x sigmoid(x)
#include <cmath>

#include "kernels/element.h"
#include "kernels/entries.h"

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
void activation_forward(Context& ctx, const ActivationArgs& a) { reference::activation_forward(ctx, a); }
void activation_backward(Context& ctx, const ActivationBackwardArgs& a) { reference::activation_backward(ctx, a); }
}  // namespace cpu

}  // namespace espalier
