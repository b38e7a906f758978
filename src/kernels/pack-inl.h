// Packing: copies a part of a matrix into panels, in the order in which the product of panels (panels-inl.h) reads
// them, as f32. A panel holds `width` lines of the operand side by side: dst[k * width + line], so that one step of
// depth is one contiguous read.
#if defined(ESPALIER_KERNELS_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ESPALIER_KERNELS_PACK_INL_H_
#undef ESPALIER_KERNELS_PACK_INL_H_
#else
#define ESPALIER_KERNELS_PACK_INL_H_
#endif

#include <algorithm>
#include <bit>

#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace espalier {
namespace HWY_NAMESPACE {

using F32x8 = hn::FixedTag<float, 8>;

template <class Tag>
HWY_INLINE hn::Vec<Tag> load_as_f32(Tag tag, const float* p) {
  return hn::LoadU(tag, p);
}
template <class Tag>
HWY_INLINE hn::Vec<Tag> load_as_f32(Tag tag, const bf16* p) {
  const hn::RebindToUnsigned<Tag> u32;
  const hn::Rebind<uint16_t, Tag> u16;
  const auto bits = hn::LoadU(u16, reinterpret_cast<const uint16_t*>(p));
  return hn::BitCast(tag, hn::ShiftLeft<16>(hn::PromoteTo(u32, bits)));
}

/// dst[k * width + i] = src[i * stride + k] for i, k < 4.
template <class T>
HWY_INLINE void transpose_block(F32x4 tag, const T* src, int64_t stride, float* dst, int64_t width) {
  const hn::Repartition<double, F32x4> pairs;
  const auto lower = [&](auto a, auto b) HWY_ATTR { return hn::BitCast(pairs, hn::InterleaveLower(tag, a, b)); };
  const auto upper = [&](auto a, auto b) HWY_ATTR { return hn::BitCast(pairs, hn::InterleaveUpper(tag, a, b)); };
  const auto r0 = load_as_f32(tag, src), r1 = load_as_f32(tag, src + stride);
  const auto r2 = load_as_f32(tag, src + 2 * stride), r3 = load_as_f32(tag, src + 3 * stride);
  const auto a = lower(r0, r1), b = lower(r2, r3), c = upper(r0, r1), d = upper(r2, r3);
  hn::StoreU(hn::BitCast(tag, hn::InterleaveLower(pairs, a, b)), tag, dst);
  hn::StoreU(hn::BitCast(tag, hn::InterleaveUpper(pairs, a, b)), tag, dst + width);
  hn::StoreU(hn::BitCast(tag, hn::InterleaveLower(pairs, c, d)), tag, dst + 2 * width);
  hn::StoreU(hn::BitCast(tag, hn::InterleaveUpper(pairs, c, d)), tag, dst + 3 * width);
}

/// The same for i, k < 8: Highway's interleaves work on halves of 128 bits, which are put together last.
template <class T>
HWY_INLINE void transpose_block(F32x8 tag, const T* src, int64_t stride, float* dst, int64_t width) {
  const hn::Repartition<double, F32x8> pairs;
  const auto lower = [&](auto a, auto b) HWY_ATTR { return hn::BitCast(pairs, hn::InterleaveLower(tag, a, b)); };
  const auto upper = [&](auto a, auto b) HWY_ATTR { return hn::BitCast(pairs, hn::InterleaveUpper(tag, a, b)); };
  const auto even = [&](auto a, auto b) HWY_ATTR { return hn::BitCast(tag, hn::InterleaveLower(pairs, a, b)); };
  const auto odd = [&](auto a, auto b) HWY_ATTR { return hn::BitCast(tag, hn::InterleaveUpper(pairs, a, b)); };
  const auto emit = [&](auto above, auto below, int64_t k) HWY_ATTR {
    hn::StoreU(hn::ConcatLowerLower(tag, below, above), tag, dst + k * width);
    hn::StoreU(hn::ConcatUpperUpper(tag, below, above), tag, dst + (k + 4) * width);
  };
  const auto row = [&](int64_t i) HWY_ATTR { return load_as_f32(tag, src + i * stride); };
  const auto r0 = row(0), r1 = row(1), r2 = row(2), r3 = row(3), r4 = row(4), r5 = row(5), r6 = row(6), r7 = row(7);
  const auto a0 = lower(r0, r1), a1 = lower(r2, r3), a2 = lower(r4, r5), a3 = lower(r6, r7);
  emit(even(a0, a1), even(a2, a3), 0);
  emit(odd(a0, a1), odd(a2, a3), 1);
  const auto b0 = upper(r0, r1), b1 = upper(r2, r3), b2 = upper(r4, r5), b3 = upper(r6, r7);
  emit(even(b0, b1), even(b2, b3), 2);
  emit(odd(b0, b1), odd(b2, b3), 3);
}

/// Lines [0, lines) in blocks of Tag's size. What is left over is covered by blocks that overlap earlier ones.
template <class Tag, class T>
HWY_INLINE void transpose_lines(Tag tag, const T* src, int64_t stride, int64_t lines, int64_t depth, float* dst,
                                int64_t width) {
  constexpr int64_t kSize = hn::MaxLanes(Tag());
  for (int64_t i = 0; i < lines; i += kSize) {
    const int64_t line = std::min(i, lines - kSize);
    for (int64_t j = 0; j < depth; j += kSize) {
      const int64_t k = std::min(j, depth - kSize);
      transpose_block(tag, src + line * stride + k, stride, dst + k * width + line, width);
    }
  }
}

/// dst[k * width + i] = src[i * stride + k] for i in [0, lines), k in [0, depth).
template <class T>
void transpose(const T* src, int64_t stride, int64_t lines, int64_t depth, float* dst, int64_t width) {
  constexpr int64_t kBlock = 64;  // of depth: keeps the written block in the first cache
  for (int64_t begin = 0; begin < depth; begin += kBlock) {
    const int64_t count = std::min(kBlock, depth - begin);
    const T* from = src + begin;
    float* to = dst + begin * width;
    if (std::min(lines, count) >= 8) {
      transpose_lines(F32x8(), from, stride, lines, count, to, width);
    } else if (std::min(lines, count) >= 4) {
      transpose_lines(F32x4(), from, stride, lines, count, to, width);
    } else {
      for (int64_t i = 0; i < lines; ++i)
        for (int64_t k = 0; k < count; ++k) to[k * width + i] = float(from[i * stride + k]);
    }
  }
}

/// A panel whose lines are rows of the source: dst[k * width + i] = src[i * stride + k], zero for i in [lines, width).
template <class T>
void pack_rows(const T* src, int64_t stride, int64_t lines, int64_t depth, float* dst, int64_t width) {
  transpose(src, stride, lines, depth, dst, width);
  for (int64_t k = 0; k < depth && lines < width; ++k) std::fill(dst + k * width + lines, dst + (k + 1) * width, 0.0f);
}

/// Stores a vector of a panel that is written front to back up to `end`. It may reach into the next step of depth,
/// which is written later.
HWY_INLINE void store_step(float* dst, const float* end, V x) {
  if (dst + kLanes <= end)
    store(dst, x, Whole());
  else
    store(dst, x, Tail{size_t(end - dst)});
}

/// Lanes i ... of a row of `lines` numbers, zero beyond.
template <class T>
HWY_INLINE V load_step(const T* row, int64_t i, int64_t lines) {
  return i + kLanes <= lines ? load(row + i, Whole()) : load(row + i, Tail{size_t(std::max<int64_t>(0, lines - i))});
}

/// A panel whose lines are columns of the source: dst[k * width + i] = src[k * stride + i], zero for i in
/// [lines, width).
template <class T>
void pack_columns(const T* src, int64_t stride, int64_t lines, int64_t depth, float* dst, int64_t width) {
  const float* end = dst + depth * width;
  for (int64_t k = 0; k < depth; ++k, src += stride, dst += width) {
    __builtin_prefetch(src + 16 * stride);  // rows lie far apart: the processor does not guess the next
    for (int64_t i = 0; i < width; i += kLanes) store_step(dst + i, end, load_step(src, i, lines));
  }
}

// ---- pairs: a packed number is two bf16 of neighbouring depth, the earlier one in the lower half ----

/// As pack_rows, with `depth` numbers of each row, of even stride and 4-byte aligned; a missing last half is zero.
inline void pack_pair_rows(const bf16* src, int64_t stride, int64_t lines, int64_t depth, float* dst, int64_t width) {
  pack_rows(reinterpret_cast<const float*>(src), stride / 2, lines, depth / 2, dst, width);
  if (depth % 2 == 0) return;
  for (int64_t i = 0; i < width; ++i) {
    const uint32_t last = i < lines ? src[i * stride + depth - 1].bits : 0;
    dst[depth / 2 * width + i] = std::bit_cast<float>(last);
  }
}

/// As pack_columns, with `depth` numbers of each column.
inline void pack_pair_columns(const bf16* src, int64_t stride, int64_t lines, int64_t depth, float* dst,
                              int64_t width) {
  const float* end = dst + (depth + 1) / 2 * width;
  for (int64_t k = 0; k < depth; k += 2, src += 2 * stride, dst += width)
    for (int64_t i = 0; i < width; i += kLanes) {
      const auto lower = hn::ShiftRight<16>(hn::BitCast(U32(), load_step(src, i, lines)));
      const V upper = k + 1 < depth ? load_step(src + stride, i, lines) : hn::Zero(F32());
      store_step(dst + i, end, hn::BitCast(F32(), hn::Or(lower, hn::BitCast(U32(), upper))));
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace espalier
HWY_AFTER_NAMESPACE();
#endif  // per target
