#include "kernels/q8_rows.h"

#include <cmath>

#include "kernels/entries.h"
#include "kernels/simd.h"

#ifndef ESPALIER_KERNELS_Q8_ROWS_ONCE_
#define ESPALIER_KERNELS_Q8_ROWS_ONCE_
namespace espalier {
/// 0 where there is none: of zero, of NaN, and of what is too small to matter.
inline float inverse_of(float scale) { return scale >= 0x1p-120f ? 1 / scale : 0; }
}  // namespace espalier
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/q8_rows.cc"
#include "hwy/foreach_target.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace espalier {
namespace HWY_NAMESPACE {
namespace {

/// Returns the scale.
float store_block(const float* x, int8_t* q) {
  V most = splat(0), sum = splat(0);
  for (int64_t i = 0; i < kQ8Block; i += kLanes) {
    const V v = load(x + i, Whole());
    most = hn::Max(most, hn::Abs(v));
    sum = hn::Add(sum, hn::Mul(v, splat(0)));  // NaN where a number is none
  }
  const float top = hn::GetLane(hn::MaxOfLanes(F32(), most)), nothing = hn::GetLane(hn::SumOfLanes(F32(), sum));
  const float scale = nothing == 0 ? top / 127 : NAN;
  const V inverse = splat(inverse_of(scale));
  const hn::Rebind<int8_t, F32> i8;
  for (int64_t i = 0; i < kQ8Block; i += kLanes)
    hn::StoreU(hn::DemoteTo(i8, hn::NearestInt(hn::Mul(load(x + i, Whole()), inverse))), i8, q + i);
  return scale;
}

void run(Context& ctx, const Q8RowsArgs& args) {
  const int64_t width = args.src.cols, blocks = width / kQ8Block;
  parallel_ranges(ctx.pool, args.src.rows, 64, [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t row = begin; row < end; ++row) {
      uint8_t* to = args.dst.row<uint8_t>(row);
      for (int64_t b = 0; b < blocks; ++b)
        set_q8_scale(to, width, b, store_block(args.src.row<float>(row) + b * kQ8Block,
                                               reinterpret_cast<int8_t*>(to) + b * kQ8Block));
    }
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace espalier
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace espalier {
namespace {

void check(const Q8RowsArgs& args) {
  ESP_CHECK(args.src.dtype == DType::kF32 && args.dst.dtype == DType::kU8, "{} to {}", dtype_name(args.src.dtype),
            dtype_name(args.dst.dtype));
  ESP_CHECK(args.src.cols % kQ8Block == 0 && args.dst.cols == q8_row_bytes(args.src.cols), "{} numbers in {} bytes",
            args.src.cols, args.dst.cols);
}

}  // namespace

namespace reference {

void store_q8(Context&, const Q8RowsArgs& args) {
  check(args);
  const int64_t width = args.src.cols;
  for (int64_t row = 0; row < args.src.rows; ++row) {
    uint8_t* to = args.dst.row<uint8_t>(row);
    for (int64_t b = 0; b < width; b += kQ8Block) {
      const float* x = args.src.row<float>(row) + b;
      float top = 0;
      for (int64_t i = 0; i < kQ8Block; ++i) top = std::isfinite(x[i]) ? std::max(top, std::fabs(x[i])) : NAN;
      const float scale = top / 127;
      set_q8_scale(to, width, b / kQ8Block, scale);
      const float inverse = inverse_of(scale);
      for (int64_t i = 0; i < kQ8Block; ++i)
        reinterpret_cast<int8_t*>(to)[b + i] = std::isfinite(x[i]) ? int8_t(std::nearbyint(x[i] * inverse)) : 0;
    }
  }
}

}  // namespace reference

namespace cpu {

void store_q8(Context& ctx, const Q8RowsArgs& args) {
  check(args);
  ESP_SIMD(ctx, run)(ctx, args);
}

}  // namespace cpu
}  // namespace espalier
#endif  // HWY_ONCE
