// Vector functions in f32: exp, sigmoid, tanh, erf. Accurate to a few ulp (simd_test.cc sweeps them), NaN stays NaN.
#if defined(ESPALIER_KERNELS_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ESPALIER_KERNELS_MATH_INL_H_
#undef ESPALIER_KERNELS_MATH_INL_H_
#else
#define ESPALIER_KERNELS_MATH_INL_H_
#endif

#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace espalier {
namespace HWY_NAMESPACE {

/// e^x within 2 ulp. Results under 2^-126 are 0, from x = 88.38 on infinity. NaN stays NaN.
/// x = k ln2 + r; e^r by the polynomial of Cephes' expf; 2^k from the low bits that rounding leaves in t.
HWY_INLINE V exp(V x) {
  constexpr float kRound = 12582912.0f + 127.0f;  // 1.5 * 2^23 leaves the integer, here with the exponent's bias
  const V low = splat(-87.336540f), high = splat(88.8f);
  const V clamped = hn::Min(high, hn::Max(low, x));  // in this order x86 passes a NaN on
  const V t = hn::MulAdd(clamped, splat(1.44269504f), splat(kRound));
  const V k = hn::Sub(t, splat(kRound));
  const V r = hn::NegMulAdd(k, splat(-2.12194440e-4f), hn::NegMulAdd(k, splat(0.693359375f), clamped));
  V p = splat(1.9875691500e-4f);
  p = hn::MulAdd(p, r, splat(1.3981999507e-3f));
  p = hn::MulAdd(p, r, splat(8.3334519073e-3f));
  p = hn::MulAdd(p, r, splat(4.1665795894e-2f));
  p = hn::MulAdd(p, r, splat(1.6666665459e-1f));
  p = hn::MulAdd(p, r, splat(5.0000001201e-1f));
  p = hn::MulAdd(hn::Mul(r, r), p, hn::Add(r, splat(1.0f)));
  const V scale = hn::BitCast(F32(), hn::ShiftLeft<23>(hn::BitCast(U32(), t)));
  return hn::IfThenZeroElse(hn::Lt(x, low), hn::Mul(p, scale));
}

/// 1 / (1 + e^-x), within 4 ulp where it is at least 2^-126.
HWY_INLINE V sigmoid(V x) { return hn::Div(splat(1), hn::Add(splat(1), exp(hn::Neg(x)))); }

/// The hyperbolic tangent within 4 ulp: Cephes' polynomial near 0, sign(x) (1 - 2 / (e^2|x| + 1)) elsewhere.
HWY_INLINE V tanh(V x) {
  const V t = hn::Abs(x), s = hn::Mul(x, x);
  V p = splat(-5.70498872745e-3f);
  p = hn::MulAdd(p, s, splat(2.06390887954e-2f));
  p = hn::MulAdd(p, s, splat(-5.37397155531e-2f));
  p = hn::MulAdd(p, s, splat(1.33314422036e-1f));
  p = hn::MulAdd(p, s, splat(-3.33332819422e-1f));
  const V near = hn::MulAdd(hn::Mul(p, s), x, x);
  const V far = hn::Sub(splat(1), hn::Div(splat(2), hn::Add(exp(hn::Add(t, t)), splat(1))));
  return hn::IfThenElse(hn::Gt(t, splat(0.625f)), hn::CopySign(far, x), near);
}

/// The error function within 4 ulp: x + x P(x^2) near 0, sign(x) (1 - e^Q(|x|)) elsewhere (coefficients: N. Juffa).
HWY_INLINE V erf(V x) {
  const V t = hn::Abs(x), s = hn::Mul(x, x);
  V q = hn::MulAdd(splat(-1.72853470e-5f), t, splat(3.83197126e-4f));
  q = hn::MulAdd(q, s, hn::MulAdd(splat(-3.88396438e-3f), t, splat(2.42546219e-2f)));
  q = hn::MulAdd(q, t, splat(-1.06777877e-1f));
  q = hn::MulAdd(q, t, splat(-6.34846687e-1f));
  q = hn::MulAdd(q, t, splat(-1.28717512e-1f));
  q = hn::Sub(hn::Mul(q, t), t);
  const V far = hn::CopySign(hn::Sub(splat(1), exp(q)), x);
  V p = splat(-5.96761703e-4f);
  p = hn::MulAdd(p, s, splat(4.99119423e-3f));
  p = hn::MulAdd(p, s, splat(-2.67681349e-2f));
  p = hn::MulAdd(p, s, splat(1.12819925e-1f));
  p = hn::MulAdd(p, s, splat(-3.76125336e-1f));
  p = hn::MulAdd(p, s, splat(1.28379166e-1f));
  return hn::IfThenElse(hn::Gt(t, splat(0.927734375f)), far, hn::MulAdd(p, x, x));
}

}  // namespace HWY_NAMESPACE
}  // namespace espalier
HWY_AFTER_NAMESPACE();
#endif  // per target
