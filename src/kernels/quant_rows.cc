#include "kernels/quant_rows.h"

#include <algorithm>
#include <cmath>

#include "kernels/cache.h"
#include "kernels/quant_panels.h"
#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/quant_rows.cc"
#include "hwy/foreach_target.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace espalier {
namespace HWY_NAMESPACE {
namespace {

/// Where the numbers of one block of one row go; sum and minimum of each half follow at `half` and twice that.
struct BlockTarget {
  int8_t* q;
  float *scale, *minimum, *half_minimum;
  int32_t *sum, *half_sum;
  int64_t half;  ///< distance of the second half
};

/// Sums of the first and second 16 numbers, negated; numbers are at most 127 in magnitude.
template <class I>
void sum_halves(const I* q, const BlockTarget& t) {
  const hn::ScalableTag<int32_t> i32;
  int32_t sums[2];
  for (int h = 0; h < 2; ++h) {
    auto sum = hn::Zero(i32);
    for (int64_t i = 0; i < 16; i += kLanes) sum = hn::Add(sum, hn::Load(i32, q + 16 * h + i));
    sums[h] = hn::GetLane(hn::SumOfLanes(i32, sum));
  }
  *t.sum = -(sums[0] + sums[1]);
  *t.minimum = *t.scale * float(sums[0] + sums[1]);
  for (int h = 0; h < 2; ++h) {
    t.half_sum[h * t.half] = -sums[h];
    t.half_minimum[h * t.half] = *t.scale * float(sums[h]);
  }
}

void quantise_block(const float* x, const BlockTarget& t) {
  const F32 f32;
  const hn::ScalableTag<int32_t> i32;
  const hn::Rebind<int8_t, F32> i8;
  auto most = hn::Zero(i32);  // of magnitudes as integers, so that NaN is the largest of all
  const auto magnitude = hn::Set(i32, 0x7FFFFFFF);
  for (int64_t i = 0; i < kQuantBlock; i += kLanes)
    most = hn::Max(most, hn::And(hn::BitCast(i32, hn::LoadU(f32, x + i)), magnitude));
  const float largest = hwy::HWY_NAMESPACE::GetLane(hn::BitCast(f32, hn::MaxOfLanes(i32, most)));
  const bool sound = largest <= std::numeric_limits<float>::max();
  const float inverse = sound && largest > 0 ? 127 / largest : 0;
  *t.scale = sound ? largest / 127 : std::numeric_limits<float>::quiet_NaN();
  alignas(64) int32_t q[kQuantBlock];
  for (int64_t i = 0; i < kQuantBlock; i += kLanes) {
    // An inverse of infinity (of denormal numbers) times 0 would be NaN.
    const V scaled = hn::Mul(hn::LoadU(f32, x + i), splat(std::min(inverse, 0x1p126f)));
    const auto rounded = sound ? hn::NearestInt(scaled) : hn::Zero(i32);
    hn::Store(rounded, i32, q + i);
    hn::StoreU(hn::DemoteTo(i8, rounded), i8, t.q + i);
  }
  sum_halves(q, t);
}

void zero_block(const BlockTarget& t) {
  std::fill_n(t.q, kQuantBlock, int8_t{0});
  *t.scale = *t.minimum = t.half_minimum[0] = t.half_minimum[t.half] = 0;
  *t.sum = t.half_sum[0] = t.half_sum[t.half] = 0;
}

/// One row of X into its place `at` of the tile.
void quantise_row(const float* x, int64_t blocks, int64_t padded, const QuantTile& tile, int at) {
  const int64_t rows = tile.rows;
  for (int64_t b = 0; b < padded; ++b) {
    const int64_t i = b * rows + at, h = 2 * b * rows + at;
    const BlockTarget target{const_cast<int8_t*>(tile.q) + i * kQuantBlock, const_cast<float*>(tile.scales) + i,
                             const_cast<float*>(tile.minima) + i, const_cast<float*>(tile.half_minima) + h,
                             const_cast<int32_t*>(tile.sums) + i, const_cast<int32_t*>(tile.half_sums) + h, rows};
    if (b < blocks)
      quantise_block(x + b * kQuantBlock, target);
    else
      zero_block(target);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace espalier
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace espalier {
namespace {
constexpr int64_t kNumbers = 7;  // scale, sum, two half sums, minimum, two half minima
}

QuantRows::QuantRows(Context& ctx, ConstMat x, int tile_rows)
    : x_(x), tiles_((x.rows + tile_rows - 1) / tile_rows), blocks_((x.cols / kQuantBlock + 7) / 8 * 8) {
  ESP_CHECK(x.dtype == DType::kF32 && x.cols % kQuantBlock == 0, "x [{}, {}] {}", x.rows, x.cols, dtype_name(x.dtype));
  Scratch& memory = scratch(ctx);
  q_ = memory.get<int8_t>(Slot::kQuantRows, x.rows * blocks_ * kQuantBlock);
  numbers_ = memory.get<float>(Slot::kQuantNumbers, x.rows * blocks_ * kNumbers);
  const auto quantise = ESP_SIMD(ctx, quantise_row);
  const auto run = [&](int64_t index) {
    const QuantTile t = tile(index);
    for (int i = 0; i < t.rows; ++i)
      quantise(x_.row<float>(first_row(index) + i), x_.cols / kQuantBlock, blocks_, t, i);
  };
  if (tiles_ == 1)
    run(0);  // shorter than waking a thread
  else
    ctx.pool.parallel_for(tiles_, [&](int64_t index, int) { run(index); });
}

QuantTile QuantRows::tile(int64_t index) const {
  const int64_t begin = first_row(index), rows = first_row(index + 1) - begin;
  float* numbers = numbers_ + begin * blocks_ * kNumbers;
  const int64_t size = rows * blocks_;
  auto* sums = reinterpret_cast<int32_t*>(numbers + size);
  float* minima = numbers + 4 * size;
  return {int(rows), q_ + begin * blocks_ * kQuantBlock, numbers, sums, sums + size, minima, minima + size};
}

}  // namespace espalier
#endif  // HWY_ONCE
