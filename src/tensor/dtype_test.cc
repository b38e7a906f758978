#include "tensor/dtype.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "base/rng.h"

namespace espalier {
namespace {

/// Rounds x to the nearest value with `mantissa` bits after the leading one and exponents from `least`, ties to even,
/// in exact double arithmetic: an f32 times a power of two is exact in a double.
double rounded(float x, int mantissa, int least) {
  if (x == 0) return x;
  const int exponent = std::max(std::ilogb(x), least);
  const double unit = std::ldexp(1.0, exponent - mantissa);
  return std::nearbyint(double(x) / unit) * unit;  // the default mode of nearbyint is ties to even
}

template <class F>
void expect_every_value_survives() {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    F value;
    value.bits = uint16_t(bits);
    const F back{float(value)};
    if (float(value) == float(value)) ASSERT_EQ(back.bits, value.bits) << std::hex << bits;
    else ASSERT_NE(float(back), float(back)) << "a NaN stays a NaN, " << std::hex << bits;
  }
}

template <class F>
void expect_nearest_even(int mantissa, int least, double overflow) {
  const Rng rng(3, Purpose::kTest);
  const float infinity = std::numeric_limits<float>::infinity();
  const auto check = [&](float x) {
    const double exact = rounded(x, mantissa, least);
    const float expected = std::abs(exact) >= overflow ? std::copysign(infinity, x) : float(exact);
    const float actual = float(F{x});
    ASSERT_EQ(std::bit_cast<uint32_t>(actual), std::bit_cast<uint32_t>(expected)) << fmt::format("{:a}", x);
  };
  for (uint64_t i = 0; i < 2000000; ++i) {
    const float x = std::bit_cast<float>(rng.u32(i));
    if (std::isfinite(x)) check(x);
  }
  // Each 16-bit value, the midpoint to the next, and the floats on both sides of it.
  for (uint32_t bits = 0; bits < 65535; ++bits) {
    F a, b;
    a.bits = uint16_t(bits), b.bits = uint16_t(bits + 1);
    if (!std::isfinite(float(a)) || !std::isfinite(float(b))) continue;
    const auto middle = float((double(float(a)) + double(float(b))) / 2);
    for (const float x : {float(a), middle, std::nextafter(middle, infinity), std::nextafter(middle, -infinity)})
      check(x);
  }
}

TEST(BF16, EveryValueSurvives) { expect_every_value_survives<bf16>(); }
TEST(BF16, RoundsToNearestEven) { expect_nearest_even<bf16>(7, -126, 0x1p128); }
TEST(F16, EveryValueSurvives) { expect_every_value_survives<f16>(); }
TEST(F16, RoundsToNearestEven) { expect_nearest_even<f16>(10, -14, 65536); }

TEST(BF16, SpecialValues) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(float(bf16{infinity}), infinity);
  EXPECT_EQ(float(f16{-infinity}), -infinity);
  EXPECT_EQ(bf16{-0.0f}.bits, 0x8000);
  EXPECT_EQ(f16{-0.0f}.bits, 0x8000);
  // A NaN whose payload lies in the low half must not become infinity.
  EXPECT_TRUE(std::isnan(float(bf16{std::bit_cast<float>(0x7F800001u)})));
  EXPECT_TRUE(std::isnan(float(f16{std::bit_cast<float>(0x7F800001u)})));
  EXPECT_EQ(float(f16{65519.996f}), 65504.0f);
  EXPECT_EQ(float(f16{65520.0f}), infinity);
}

TEST(DType, NamesAndSizes) {
  for (int i = 0; i <= int(DType::kBool); ++i) {
    EXPECT_EQ(parse_dtype(dtype_name(DType(i))), DType(i));
    EXPECT_GT(dtype_size(DType(i)), 0);
  }
  EXPECT_EQ(dtype_size(DType::kBF16), int64_t(sizeof(bf16)));
  EXPECT_EQ(dtype_size(DType::kF64), 8);
  EXPECT_THROW(parse_dtype("f8"), Error);
}

}  // namespace
}  // namespace espalier
