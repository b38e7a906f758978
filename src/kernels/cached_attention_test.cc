#include "kernels/op_case.h"

namespace espalier {
namespace {

class CachedAttention : public OpTest {
 protected:
  struct Case {
    int64_t rows, keys, heads, kv_heads, head_size, window = 0;
    DType dtype = DType::kF32;
    float softcap = 0;
  };
  /// For the bound see attention_test.cc.
  void check_case(const Case& c) {
    SCOPED_TRACE(fmt::format("rows {} keys {} heads {}/{} size {} window {} {} cap {}", c.rows, c.keys, c.heads,
                             c.kv_heads, c.head_size, c.window, dtype_name(c.dtype), c.softcap));
    const double weight_error = (4 * std::sqrt(double(c.head_size)) + 8 + double(c.keys)) * 0x1p-24;
    check([&](OpRun& op) {
      op.kernels.cached_attention(
          op.ctx, {.q = op.input(DType::kF32, c.rows, c.heads * c.head_size),
                   .k = op.input(c.dtype, c.keys + 3, c.kv_heads * c.head_size),
                   .v = op.input(c.dtype, c.keys + 3, c.kv_heads * c.head_size),
                   .out = op.output(DType::kF32, c.rows, c.heads * c.head_size, {.absolute = 2 * weight_error}),
                   .keys = c.keys, .heads = c.heads, .kv_heads = c.kv_heads, .head_size = c.head_size,
                   .window = c.window, .scale = 1.0f / std::sqrt(float(c.head_size)),
                   .softcap = c.softcap});
    });
  }
};

TEST_F(CachedAttention, MatchesReference) {
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    for (int64_t keys : tails())
      check_case({.rows = 1, .keys = keys, .heads = 2, .kv_heads = 2, .head_size = 8, .dtype = dtype});
    for (int64_t size : tails())
      check_case({.rows = 3, .keys = 9, .heads = 5, .kv_heads = 1, .head_size = size, .dtype = dtype});
  }
}

TEST_F(CachedAttention, AcrossBlocks) {
  for (int64_t rows : {1, 2, 40})
    for (int64_t window : {0, 1, 100, 300})
      check_case({.rows = rows, .keys = 700, .heads = 6, .kv_heads = 1, .head_size = 8, .window = window});
}

TEST_F(CachedAttention, SoftCaps) {
  for (DType dtype : {DType::kF32, DType::kBF16})
    for (float softcap : {0.7f, 30.0f})
      for (int64_t window : {0, 100})
        check_case({.rows = 3, .keys = 301, .heads = 6, .kv_heads = 2, .head_size = 16, .window = window,
                    .dtype = dtype, .softcap = softcap});
}

// Keys and values in 8 bits: what they mean is exact, so the bound is that of f32. With paths and without.
TEST_F(CachedAttention, ReadsEightBits) {
  constexpr int64_t kRows = 3, kHeads = 6, kKvHeads = 2, kSize = 64, kWidth = kKvHeads * kSize;
  for (const int64_t keys : {5, 300, 700})
    for (const bool paths : {false, true}) {
      std::vector<uint8_t> k(size_t(keys * q8_row_bytes(kWidth))), v(k.size());
      std::vector<float> q(kRows * kHeads * kSize), numbers(size_t(keys * kWidth)), expected(q.size()), out(q.size());
      const Rng rng(uint64_t(keys), Purpose::kTest, 7);
      uint64_t counter = 0;
      for (float& x : q) x = rng.uniform(counter++) - 0.5f;
      Context reference{one_, silent_log(), Isa::kReference, {}};
      const auto bytes = [&](std::vector<uint8_t>& m) {
        return Mat{m.data(), DType::kU8, keys, q8_row_bytes(kWidth), q8_row_bytes(kWidth)};
      };
      for (auto* side : {&k, &v}) {
        for (float& x : numbers) x = rng.uniform(counter++) - 0.5f;
        kernels(reference).store_q8(reference, {.src = mat(numbers.data(), keys, kWidth), .dst = bytes(*side)});
      }
      // The last three rows as a chain that lies backwards in the cache.
      const int32_t rows[] = {int32_t(keys - 1), 0, 0, int32_t(keys - 1), int32_t(keys - 2), 0,
                              int32_t(keys - 1), int32_t(keys - 2), int32_t(keys - 3)}, lengths[] = {1, 2, 3};
      const KeyPaths chain{keys - 3, 3, rows, lengths};
      CachedAttentionArgs args{.q = mat(q.data(), kRows, kHeads * kSize), .k = bytes(k), .v = bytes(v), .keys = keys,
                               .heads = kHeads, .kv_heads = kKvHeads, .head_size = kSize, .scale = 0.125f,
                               .paths = paths ? &chain : nullptr};
      args.out = mat(expected.data(), kRows, kHeads * kSize);
      kernels(reference).cached_attention(reference, args);
      for (Isa isa : {Isa::kAvx2, Isa::kAvx3}) {
        if (!isa_supported(isa)) continue;
        Context ctx{one_, silent_log(), isa, {}};
        args.out = mat(out.data(), kRows, kHeads * kSize);
        kernels(ctx).cached_attention(ctx, args);
        const double bound = (4 * std::sqrt(double(kSize)) + 8 + double(keys)) * 0x1p-24;
        for (size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], expected[i], bound) << isa_name(isa) << " " << keys;
      }
    }
}

// Rows computed in one call have the bits of the same rows computed one call each, whichever way the work is cut.
TEST_F(CachedAttention, RowsDoNotDependOnEachOther) {
  constexpr int64_t kRows = 70, kKeys = 600, kHeads = 3, kSize = 20;
  std::vector<float> q(kRows * kHeads * kSize), k(kKeys * kSize), v(kKeys * kSize), together(q.size()), alone(q.size());
  const Rng rng(5, Purpose::kTest, 1);
  uint64_t counter = 0;
  for (auto* values : {&q, &k, &v})
    for (float& x : *values) x = rng.uniform(counter++) - 0.5f;
  for (Isa isa : {Isa::kAvx2, Isa::kAvx3}) {
    if (!isa_supported(isa)) continue;
    Context ctx{one_, silent_log(), isa, {}};
    CachedAttentionArgs args{.k = mat(k.data(), kKeys, kSize), .v = mat(v.data(), kKeys, kSize), .keys = kKeys,
                             .heads = kHeads, .kv_heads = 1, .head_size = kSize, .window = 310, .scale = 2};
    args.q = mat(q.data(), kRows, kHeads * kSize);
    args.out = mat(together.data(), kRows, kHeads * kSize);
    kernels(ctx).cached_attention(ctx, args);
    for (int64_t i = 0; i < kRows; ++i) {
      args.q = mat(&q[size_t(i * kHeads * kSize)], 1, kHeads * kSize);
      args.out = mat(&alone[size_t(i * kHeads * kSize)], 1, kHeads * kSize);
      args.keys = kKeys - kRows + i + 1;
      kernels(ctx).cached_attention(ctx, args);
    }
    EXPECT_EQ(together, alone) << isa_name(isa);
  }
}

// A path through a tree whose nodes lie anywhere in the cache gives the bits of the same keys in order.
TEST_F(CachedAttention, PathsGiveTheBitsOfKeysInOrder) {
  constexpr int64_t kShared = 510, kDepth = 6, kRows = 3, kSize = 20, kHeads = 3, kCells = 40;
  const Rng rng(6, Purpose::kTest, 1);
  std::vector<float> q(kRows * kHeads * kSize), k((kShared + kCells) * kSize), v(k.size());
  uint64_t counter = 0;
  for (auto* values : {&q, &k, &v})
    for (float& x : *values) x = rng.uniform(counter++) - 0.5f;
  // Row i has i + 4 nodes at scattered cells.
  std::vector<int32_t> rows(kRows * kDepth), lengths;
  for (int64_t i = 0; i < kRows; ++i) {
    lengths.push_back(int32_t(i + 4));
    for (int64_t d = 0; d < kDepth; ++d) rows[size_t(i * kDepth + d)] = int32_t(kShared + (7 * d + 3 * i) % kCells);
  }
  const KeyPaths paths{kShared, kDepth, rows.data(), lengths.data()};
  for (Isa isa : {Isa::kReference, Isa::kAvx2, Isa::kAvx3})
    for (const int64_t window : {0, 4, 300}) {
      if (!isa_supported(isa)) continue;
      Context ctx{three_, silent_log(), isa, {}};
      std::vector<float> tree(q.size()), line(kHeads * kSize);
      CachedAttentionArgs args{.q = mat(q.data(), kRows, kHeads * kSize), .k = mat(k.data(), kShared + kCells, kSize),
                               .v = mat(v.data(), kShared + kCells, kSize),
                               .out = mat(tree.data(), kRows, kHeads * kSize), .keys = kShared + kCells,
                               .heads = kHeads, .kv_heads = 1, .head_size = kSize, .window = window, .scale = 2,
                               .paths = &paths};
      kernels(ctx).cached_attention(ctx, args);
      for (int64_t i = 0; i < kRows; ++i) {
        std::vector<float> k_line = k, v_line = v;
        for (int64_t d = 0; d < lengths[size_t(i)]; ++d)
          for (auto [to, from] : {std::pair(&k_line, &k), std::pair(&v_line, &v)})
            std::copy_n(from->begin() + rows[size_t(i * kDepth + d)] * kSize, kSize,
                        to->begin() + (kShared + d) * kSize);
        args.paths = nullptr;
        args.keys = kShared + lengths[size_t(i)];
        args.q = mat(&q[size_t(i * kHeads * kSize)], 1, kHeads * kSize);
        args.k = mat(k_line.data(), args.keys, kSize);
        args.v = mat(v_line.data(), args.keys, kSize);
        args.out = mat(line.data(), 1, kHeads * kSize);
        kernels(ctx).cached_attention(ctx, args);
        EXPECT_EQ(std::memcmp(line.data(), &tree[size_t(i * kHeads * kSize)], line.size() * sizeof(float)), 0)
            << isa_name(isa) << " window " << window << " row " << i;
      }
    }
}

}  // namespace
}  // namespace espalier
