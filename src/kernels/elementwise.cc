// Loops that touch each element once: add, copy (with conversion and scale), dropout.
#include <algorithm>

#include "kernels/element.h"
#include "kernels/entries.h"
#include "kernels/pieces.h"
#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise.cc"
#include "hwy/foreach_target.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace espalier {
namespace HWY_NAMESPACE {
namespace {

/// visit_float and f16 beside.
template <class F>
HWY_INLINE void visit_any_float(DType dtype, const F& fn) {
  if (dtype == DType::kF16)
    fn(f16());
  else
    visit_float(dtype, fn);
}

void add_run(const AddArgs& args, int64_t row, int64_t begin, int64_t count) {
  visit_float(args.a.dtype, [&](auto ta) HWY_ATTR {
    visit_float(args.b.dtype, [&](auto tb) HWY_ATTR {
      visit_float(args.y.dtype, [&](auto ty) HWY_ATTR {
        const auto* a = args.a.row<decltype(ta)>(row) + begin;
        const auto* b = args.b.row<decltype(tb)>(row) + begin;
        auto* y = args.y.row<decltype(ty)>(row) + begin;
        for_vectors(count, [&](int64_t c, auto lanes) HWY_ATTR {
          store(y + c, hn::Add(load(a + c, lanes), load(b + c, lanes)), lanes);
        });
      });
    });
  });
}

void copy_run(const CopyArgs& a, int64_t row, int64_t begin, int64_t count) {
  const V scale = splat(a.scale);
  visit_any_float(a.src.dtype, [&](auto ts) HWY_ATTR {
    visit_any_float(a.dst.dtype, [&](auto td) HWY_ATTR {
      const auto* src = a.src.row<decltype(ts)>(row) + begin;
      auto* dst = a.dst.row<decltype(td)>(row) + begin;
      for_vectors(count, [&](int64_t c, auto lanes) HWY_ATTR {
        const V x = hn::Mul(scale, load(src + c, lanes));
        store(dst + c, a.accumulate ? hn::Add(load(dst + c, lanes), x) : x, lanes);
      });
    });
  });
}

/// The 64-bit products of all lanes: Philox's only costly step.
HWY_INLINE void multiply_wide(hn::Vec<U32> a, uint32_t factor, hn::Vec<U32>& high, hn::Vec<U32>& low) {
  const U32 u32;
  const auto f = hn::Set(u32, factor);
  const auto even = hn::BitCast(u32, hn::MulEven(a, f)), odd = hn::BitCast(u32, hn::MulEven(hn::Shuffle2301(a), f));
  low = hn::OddEven(hn::Shuffle2301(odd), even);
  high = hn::OddEven(odd, hn::Shuffle2301(even));
}

/// words[4 i + j] = rng.block(first + i)[j] for kLanes blocks.
HWY_INLINE void philox_blocks(const Rng& rng, uint64_t first, uint32_t* words) {
  const U32 u32;
  const auto counter = rng.counter(first);
  auto key = rng.key();
  auto c0 = hn::Iota(u32, counter[0]), c1 = hn::Set(u32, counter[1]);
  auto c2 = hn::Set(u32, counter[2]), c3 = hn::Set(u32, counter[3]);
  for (int round = 0; round < 10; ++round) {
    hn::Vec<U32> a_high, a_low, b_high, b_low;
    multiply_wide(c0, 0xD2511F53, a_high, a_low);
    multiply_wide(c2, 0xCD9E8D57, b_high, b_low);
    c0 = hn::Xor(b_high, hn::Xor(c1, hn::Set(u32, key[0])));
    c2 = hn::Xor(a_high, hn::Xor(c3, hn::Set(u32, key[1])));
    c1 = b_low;
    c3 = a_low;
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  hn::StoreInterleaved4(c0, c1, c2, c3, u32, words);
}

void dropout_run(const DropoutArgs& a, int64_t row, int64_t begin, int64_t count) {
  const V scale = splat(1 / (1 - a.p)), p = splat(a.p);
  const hn::RebindToSigned<U32> i32;
  uint32_t words[5 * kLanes] = {};  // four vectors, and what the last load of a chunk reads beyond them
  const auto first = uint64_t(row * a.x.cols + begin);
  visit_float(a.x.dtype, [&](auto tx) HWY_ATTR {
    visit_float(a.y.dtype, [&](auto ty) HWY_ATTR {
      const auto* x = a.x.row<decltype(tx)>(row) + begin;
      auto* y = a.y.row<decltype(ty)>(row) + begin;
      for (int64_t at = 0, size; at < count; at += size) {
        const uint64_t index = first + uint64_t(at);
        const auto skip = int64_t(index % 4);  // a run may begin within a block, later chunks do not
        size = std::min(4 * kLanes - skip, count - at);
        philox_blocks(a.rng, index / 4, words);
        for_vectors(size, [&](int64_t c, auto lanes) HWY_ATTR {
          const auto bits = hn::ShiftRight<8>(hn::LoadU(U32(), words + skip + c));
          const V uniform = hn::Mul(hn::ConvertTo(F32(), hn::BitCast(i32, bits)), splat(0x1p-24f));
          const V kept = hn::Mul(load(x + at + c, lanes), scale);
          store(y + at + c, hn::IfThenElseZero(hn::Ge(uniform, p), kept), lanes);
        });
      }
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

void add(Context&, const AddArgs& a) {
  for (int64_t i = 0; i < a.y.rows; ++i)
    for (int64_t c = 0; c < a.y.cols; ++c) set_element(a.y, i, c, element(a.a, i, c) + element(a.b, i, c));
}

void copy(Context&, const CopyArgs& a) {
  for (int64_t i = 0; i < a.dst.rows; ++i) {
    for (int64_t c = 0; c < a.dst.cols; ++c) {
      const float x = a.scale * element(a.src, i, c);
      set_element(a.dst, i, c, a.accumulate ? element(a.dst, i, c) + x : x);
    }
  }
}

void dropout(Context&, const DropoutArgs& a) {
  const float scale = 1 / (1 - a.p);
  for (int64_t i = 0; i < a.x.rows; ++i) {
    for (int64_t c = 0; c < a.x.cols; ++c) {
      const bool keep = a.rng.uniform(uint64_t(i * a.x.cols + c)) >= a.p;
      set_element(a.y, i, c, keep ? element(a.x, i, c) * scale : 0);
    }
  }
}

}  // namespace reference

namespace cpu {

void add(Context& ctx, const AddArgs& a) {
  const auto run = ESP_SIMD(ctx, add_run);
  for_runs(ctx, a.y.rows, a.y.cols, all_contiguous(a.a, a.b, a.y),
           [&](int64_t row, int64_t begin, int64_t count) { run(a, row, begin, count); });
}

void copy(Context& ctx, const CopyArgs& a) {
  ESP_CHECK(!a.accumulate || a.dst.dtype == DType::kF32, "accumulating into {}", dtype_name(a.dst.dtype));
  const auto run = ESP_SIMD(ctx, copy_run);
  for_runs(ctx, a.dst.rows, a.dst.cols, all_contiguous(a.src, a.dst),
           [&](int64_t row, int64_t begin, int64_t count) { run(a, row, begin, count); });
}

void dropout(Context& ctx, const DropoutArgs& a) {
  ESP_CHECK(a.x.rows * a.x.cols < int64_t{1} << 34, "{} x {} is more than a random stream holds", a.x.rows, a.x.cols);
  const auto run = ESP_SIMD(ctx, dropout_run);
  for_runs(ctx, a.x.rows, a.x.cols, all_contiguous(a.x, a.y),
           [&](int64_t row, int64_t begin, int64_t count) { run(a, row, begin, count); });
}

}  // namespace cpu

}  // namespace espalier
#endif  // HWY_ONCE
