// The vector vocabulary of this folder's kernels on top of Highway 1.0.3: load and store (f32, bf16, f16 memory, f32
// lanes, whole vectors or tails), loops and sums. What newer Highways supply is replaced here; math-inl.h adds exp and
// its family.
//
// A kernel file includes itself once a target and is compiled for AVX2 and AVX-512 in namespaces N_AVX2 and N_AVX3:
//
//   #undef HWY_TARGET_INCLUDE
//   #define HWY_TARGET_INCLUDE "kernels/norm.cc"
//   #include "hwy/foreach_target.h"
//   #include "kernels/simd-inl.h"      // and every header that uses vectors
//   HWY_BEFORE_NAMESPACE();
//   namespace espalier { namespace HWY_NAMESPACE { namespace { ... vector code ... }}}
//   HWY_AFTER_NAMESPACE();
//   #if HWY_ONCE                       // reference version, and ESP_SIMD(ctx, f)(...) of simd.h by ctx.isa
//
// Lambdas of vector code carry HWY_ATTR: they do not inherit the target. Loop bodies are written once and serve whole
// vectors and the tail:
//   for_vectors(n, [&](int64_t i, auto lanes) HWY_ATTR { store(y + i, f(load(x + i, lanes)), lanes); });
#if defined(ESPALIER_KERNELS_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ESPALIER_KERNELS_SIMD_INL_H_
#undef ESPALIER_KERNELS_SIMD_INL_H_
#else
#define ESPALIER_KERNELS_SIMD_INL_H_
#endif

#include <array>

#include "hwy/highway.h"
#include "tensor/view.h"

HWY_BEFORE_NAMESPACE();
namespace espalier {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using U32 = hn::RebindToUnsigned<F32>;
using Half16 = hn::Rebind<uint16_t, F32>;  // as many 16-bit lanes
using V = hn::Vec<F32>;
constexpr int64_t kLanes = int64_t(HWY_LANES(float));

/// How many lanes of a vector a loop body handles: all, or the first n at the end of a row.
struct Whole {};
struct Tail {
  size_t n;
};

HWY_INLINE V splat(float x) { return hn::Set(F32(), x); }

// ---- memory ----

HWY_INLINE V widen_bf16(hn::Vec<Half16> bits) {
  return hn::BitCast(F32(), hn::ShiftLeft<16>(hn::PromoteTo(U32(), bits)));
}
/// Rounds to nearest even; NaN stays NaN. The same bits as bf16(float).
HWY_INLINE hn::Vec<Half16> narrow_bf16(V x) {
  const U32 u32;
  const auto bits = hn::BitCast(u32, x), upper = hn::ShiftRight<16>(bits);
  const auto odd = hn::And(upper, hn::Set(u32, 1u));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(u32, 0x7FFFu))));
  const auto quiet = hn::Or(upper, hn::Set(u32, 0x40u));
  const auto nan = hn::RebindMask(u32, hn::IsNaN(x));
  return hn::DemoteTo(Half16(), hn::BitCast(hn::RebindToSigned<U32>(), hn::IfThenElse(nan, quiet, rounded)));
}
HWY_INLINE V load(const float* p, Whole) { return hn::LoadU(F32(), p); }
HWY_INLINE V load(const bf16* p, Whole) {
  return widen_bf16(hn::LoadU(Half16(), reinterpret_cast<const uint16_t*>(p)));
}
HWY_INLINE V load(const f16* p, Whole) {
  const hn::Rebind<hwy::float16_t, F32> tag;
  return hn::PromoteTo(F32(), hn::LoadU(tag, reinterpret_cast<const hwy::float16_t*>(p)));
}
HWY_INLINE void store(float* p, V x, Whole) { hn::StoreU(x, F32(), p); }
HWY_INLINE void store(bf16* p, V x, Whole) {
  hn::StoreU(narrow_bf16(x), Half16(), reinterpret_cast<uint16_t*>(p));
}
HWY_INLINE void store(f16* p, V x, Whole) {
  const hn::Rebind<hwy::float16_t, F32> tag;
  hn::StoreU(hn::DemoteTo(tag, x), tag, reinterpret_cast<hwy::float16_t*>(p));
}

/// Lanes from n on are zero. f32 is masked; AVX2 has no masks for 16 bits, so those go through a buffer.
HWY_INLINE V load(const float* p, Tail tail) { return hn::MaskedLoad(hn::FirstN(F32(), tail.n), F32(), p); }
template <class T>
HWY_INLINE V load(const T* p, Tail tail) {
  T buffer[kLanes] = {};
  for (size_t i = 0; i < tail.n; ++i) buffer[i] = p[i];
  return load(buffer, Whole());
}
/// Writes the first n lanes and nothing beyond.
HWY_INLINE void store(float* p, V x, Tail tail) { hn::BlendedStore(x, hn::FirstN(F32(), tail.n), F32(), p); }
template <class T>
HWY_INLINE void store(T* p, V x, Tail tail) {
  T buffer[kLanes];
  store(buffer, x, Whole());
  for (size_t i = 0; i < tail.n; ++i) p[i] = buffer[i];
}

/// x with the lanes beyond the tail set to `other` (sums want 0, maxima the lowest number).
HWY_INLINE V keep(V x, float, Whole) { return x; }
HWY_INLINE V keep(V x, float other, Tail tail) {
  return hn::IfThenElse(hn::FirstN(F32(), tail.n), x, splat(other));
}

// ---- loops ----

/// body(i, lanes) for i = 0, kLanes, ... below n.
template <class Body>
HWY_INLINE void for_vectors(int64_t n, const Body& body) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i, Whole());
  if (i < n) body(i, Tail{size_t(n - i)});
}

/// K sums over i in [0, n): add(i, lanes, sums) adds its vectors to V sums[K], with keep(term, 0, lanes) where lanes
/// beyond the tail are not zero. Four sets of sums take turns, so that additions need not wait for each other.
template <int K, class Add>
HWY_INLINE std::array<float, K> sum_vectors(int64_t n, const Add& add) {
  V a[K], b[K], c[K], d[K];
  for (int k = 0; k < K; ++k) a[k] = b[k] = c[k] = d[k] = hn::Zero(F32());
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    add(i, Whole(), a);
    add(i + kLanes, Whole(), b);
    add(i + 2 * kLanes, Whole(), c);
    add(i + 3 * kLanes, Whole(), d);
  }
  for (; i + kLanes <= n; i += kLanes) add(i, Whole(), a);
  if (i < n) add(i, Tail{size_t(n - i)}, b);
  std::array<float, K> sums;
  for (int k = 0; k < K; ++k)
    sums[size_t(k)] = hn::GetLane(hn::SumOfLanes(F32(), hn::Add(hn::Add(a[k], b[k]), hn::Add(c[k], d[k]))));
  return sums;
}

/// The largest of `lowest` and value(i, lanes) for i in [0, n). NaN may be passed over.
template <class Value>
HWY_INLINE float max_vectors(int64_t n, float lowest, const Value& value) {
  V a = splat(lowest), b = a, c = a, d = a;
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    a = hn::Max(a, value(i, Whole()));
    b = hn::Max(b, value(i + kLanes, Whole()));
    c = hn::Max(c, value(i + 2 * kLanes, Whole()));
    d = hn::Max(d, value(i + 3 * kLanes, Whole()));
  }
  for (; i + kLanes <= n; i += kLanes) a = hn::Max(a, value(i, Whole()));
  if (i < n) b = hn::Max(b, keep(value(i, Tail{size_t(n - i)}), lowest, Tail{size_t(n - i)}));
  return hn::GetLane(hn::MaxOfLanes(F32(), hn::Max(hn::Max(a, b), hn::Max(c, d))));
}

/// The sums across four vectors, as four lanes. Each is added up in the same order, whatever stands beside it.
using F32x4 = hn::FixedTag<float, 4>;
HWY_INLINE hn::Vec<F32x4> sum_each(V a, V b, V c, V d) {
  const F32 f32;
  const hn::Repartition<double, F32> pairs;
  const auto add_pairs = [&](V x, V y) HWY_ATTR {  // of each 128 bits: x0+x2, y0+y2, x1+x3, y1+y3
    return hn::BitCast(pairs, hn::Add(hn::InterleaveLower(f32, x, y), hn::InterleaveUpper(f32, x, y)));
  };
  const auto ab = add_pairs(a, b), cd = add_pairs(c, d);
  const V all = hn::Add(hn::BitCast(f32, hn::InterleaveLower(pairs, ab, cd)),
                        hn::BitCast(f32, hn::InterleaveUpper(pairs, ab, cd)));
  const hn::Half<F32> half;
  const auto folded = hn::Add(hn::LowerHalf(half, all), hn::UpperHalf(half, all));
#if HWY_TARGET == HWY_AVX2
  return folded;
#else
  const hn::Half<decltype(half)> quarter;
  return hn::Add(hn::LowerHalf(quarter, folded), hn::UpperHalf(quarter, folded));
#endif
}

/// A sum of squares in f64, where neither large numbers overflow nor long sums lose digits.
class SquareSum {
 public:
  HWY_INLINE SquareSum() : low_(hn::Zero(F64())), high_(hn::Zero(F64())) {}
  HWY_INLINE void add(V x) {
    const hn::Half<F32> half;
    const V64 low = hn::PromoteTo(F64(), hn::LowerHalf(half, x)), high = hn::PromoteTo(F64(), hn::UpperHalf(half, x));
    low_ = hn::MulAdd(low, low, low_);
    high_ = hn::MulAdd(high, high, high_);
  }
  HWY_INLINE double total() const { return hn::GetLane(hn::SumOfLanes(F64(), hn::Add(low_, high_))); }

 private:
  using F64 = hn::ScalableTag<double>;
  using V64 = hn::Vec<F64>;
  V64 low_, high_;
};

/// Calls fn with a value of the element type: visit_float(dtype, [&](auto t) HWY_ATTR { using T = decltype(t); ... }).
template <class F>
HWY_INLINE void visit_float(DType dtype, const F& fn) {
  ESP_CHECK(dtype == DType::kF32 || dtype == DType::kBF16, "f32 or bf16 wanted, found {}", dtype_name(dtype));
  if (dtype == DType::kF32)
    fn(float());
  else
    fn(bf16());
}

}  // namespace HWY_NAMESPACE
}  // namespace espalier
HWY_AFTER_NAMESPACE();
#endif  // per target
