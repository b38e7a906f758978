// The vector vocabulary by itself: conversions bit for bit, functions in units of the last place against f64.
#include <cmath>
#include <cstdio>
#include <vector>

#include <gtest/gtest.h>

#include "base/context.h"
#include "kernels/simd.h"

#ifndef HWY_BASELINE_TARGETS
#define HWY_BASELINE_TARGETS HWY_AVX2  // as the kernels are compiled
#endif
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd_test.cc"
#include "hwy/foreach_target.h"
#include "kernels/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace espalier {
namespace HWY_NAMESPACE {
namespace {

void exp_of(const float* x, float* y, int64_t n) {
  for_vectors(n, [&](int64_t i, auto lanes) HWY_ATTR { store(y + i, exp(load(x + i, lanes)), lanes); });
}
void sigmoid_of(const float* x, float* y, int64_t n) {
  for_vectors(n, [&](int64_t i, auto lanes) HWY_ATTR { store(y + i, sigmoid(load(x + i, lanes)), lanes); });
}
void tanh_of(const float* x, float* y, int64_t n) {
  for_vectors(n, [&](int64_t i, auto lanes) HWY_ATTR { store(y + i, tanh(load(x + i, lanes)), lanes); });
}
void erf_of(const float* x, float* y, int64_t n) {
  for_vectors(n, [&](int64_t i, auto lanes) HWY_ATTR { store(y + i, erf(load(x + i, lanes)), lanes); });
}
template <class T>
void convert(const float* x, T* y, float* back, int64_t n) {
  for_vectors(n, [&](int64_t i, auto lanes) HWY_ATTR {
    store(y + i, load(x + i, lanes), lanes);
    store(back + i, load(y + i, lanes), lanes);
  });
}
void to_bf16(const float* x, bf16* y, float* back, int64_t n) { convert(x, y, back, n); }
void to_f16(const float* x, f16* y, float* back, int64_t n) { convert(x, y, back, n); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace espalier
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace espalier {
namespace {

/// Every `stride`-th bit pattern of f32: all exponents, both signs, infinities and NaNs.
std::vector<float> patterns(uint64_t stride) {
  std::vector<float> x;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += stride) x.push_back(std::bit_cast<float>(uint32_t(bits)));
  for (float special : {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 88.3f, -87.3f, 1e-40f, 65520.0f, 65519.0f})
    x.push_back(special);
  return x;
}

class Simd : public ::testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!isa_supported(GetParam())) GTEST_SKIP() << "this processor has no " << isa_name(GetParam());
  }
  ThreadPool pool_{1};
  Context ctx_{pool_, silent_log(), GetParam(), {}};

  /// The largest error over x in [low, high] in ulp of the true value, where that is a normal number.
  template <class Function, class Truth>
  double worst_ulp(Function function, Truth truth, float low, float high) {
    const std::vector<float> x = patterns(997);
    std::vector<float> y(x.size());
    function(x.data(), y.data(), int64_t(x.size()));
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_EQ(std::isnan(x[i]), std::isnan(y[i])) << x[i];
      if (!(x[i] >= low && x[i] <= high)) continue;
      const double want = truth(double(x[i]));
      if (std::abs(want) < 0x1p-126) continue;
      worst = std::max(worst, std::abs(y[i] - want) / std::ldexp(1.0, std::ilogb(want) - 23));
    }
    return worst;
  }
};

TEST_P(Simd, ExpWithinTwoUlp) {
  EXPECT_LT(worst_ulp(ESP_SIMD(ctx_, exp_of), [](double x) { return std::exp(x); }, -87.3f, 88.3f), 2);
  const std::vector<float> x{-INFINITY, -1e30f, -104, INFINITY, 1e30f, 89};
  std::vector<float> y(x.size());
  ESP_SIMD(ctx_, exp_of)(x.data(), y.data(), int64_t(x.size()));
  EXPECT_EQ(y, (std::vector<float>{0, 0, 0, INFINITY, INFINITY, INFINITY}));
}

TEST_P(Simd, SigmoidWithinFourUlp) {
  EXPECT_LT(worst_ulp(ESP_SIMD(ctx_, sigmoid_of), [](double x) { return 1 / (1 + std::exp(-x)); }, -87, INFINITY), 4);
}

TEST_P(Simd, TanhWithinFourUlp) {
  EXPECT_LT(worst_ulp(ESP_SIMD(ctx_, tanh_of), [](double x) { return std::tanh(x); }, -INFINITY, INFINITY), 4);
}

TEST_P(Simd, ErfWithinFourUlp) {
  EXPECT_LT(worst_ulp(ESP_SIMD(ctx_, erf_of), [](double x) { return std::erf(x); }, -1e30f, 1e30f), 4);
}

template <class T, class Convert>
void expect_conversion(Convert convert) {
  const std::vector<float> x = patterns(4099);
  std::vector<T> y(x.size());
  std::vector<float> back(x.size());
  convert(x.data(), y.data(), back.data(), int64_t(x.size()));
  for (size_t i = 0; i < x.size(); ++i) {
    const float want = float(T(x[i]));
    if (std::isnan(x[i])) {
      ASSERT_TRUE(std::isnan(float(y[i])) && std::isnan(back[i]));
      continue;
    }
    ASSERT_EQ(y[i].bits, T(x[i]).bits) << x[i];
    ASSERT_EQ(std::bit_cast<uint32_t>(back[i]), std::bit_cast<uint32_t>(want)) << x[i];
  }
}

TEST_P(Simd, BF16RoundsAsTheScalarType) { expect_conversion<bf16>(ESP_SIMD(ctx_, to_bf16)); }
TEST_P(Simd, F16RoundsAsTheScalarType) { expect_conversion<f16>(ESP_SIMD(ctx_, to_f16)); }

INSTANTIATE_TEST_SUITE_P(Isa, Simd, ::testing::Values(Isa::kAvx2, Isa::kAvx3),
                         [](const auto& test) { return isa_name(test.param); });

}  // namespace
}  // namespace espalier
#endif  // HWY_ONCE
