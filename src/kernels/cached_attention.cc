// Attention of new rows over the cache, for generation. Keys are taken in blocks at fixed positions; each block gives a
// part (maximum, total, weighted sum of values) of its own, and the parts are joined in order. A row's bits therefore
// depend on its query and the cache alone, whether blocks are computed one after another or side by side.
// The query heads that share a key/value head are computed together, so that the cache is read once.
#include <algorithm>
#include <cmath>

#include "kernels/cache.h"
#include "kernels/entries.h"
#include "kernels/q8_rows.h"
#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cached_attention.cc"
#include "hwy/foreach_target.h"
#include "kernels/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace espalier {
namespace HWY_NAMESPACE {
namespace {

constexpr int64_t kBlockKeys = 256;
/// Query heads at a time: their sums and weights share the loads of keys and values.
constexpr int kTileQueries = 4;  // as many as sum_each adds up
/// With fewer rows times key heads than this, blocks are tasks of their own.
constexpr int64_t kTasksWanted = 32;

/// The softmax of one query over some keys: sums [D] of values weighted by exp(score - top), and the total weight.
struct Part {
  float top, total;
  float* sums;
};

/// Joins `next` into `all`.
void join(Part& all, const Part& next, int64_t D) {
  const float top = std::max(all.top, next.top);
  const float keep_all = std::exp(all.top - top), keep_next = std::exp(next.top - top);
  all.total = all.total * keep_all + next.total * keep_next;
  all.top = top;
  for_vectors(D, [&](int64_t d, auto lanes) HWY_ATTR {
    const V scaled = hn::Mul(load(next.sums + d, lanes), splat(keep_next));
    store(all.sums + d, hn::MulAdd(load(all.sums + d, lanes), splat(keep_all), scaled), lanes);
  });
}

/// One head's keys or values at positions from some one on. Those from number `in_order` on lie where `path` says.
template <class T>
struct Rows {
  const T *first, *all;  // of the first position, and of the cache's first row
  int64_t stride, in_order;
  const int32_t* path;

  const T* at(int64_t i) const { return i < in_order ? first + i * stride : all + path[i - in_order] * stride; }
};

/// Scores of one query, four keys at a time.
template <class T>
void score_keys_once(const float* q, const Rows<T>& k, int64_t keys, int64_t D, float* scores) {
  for (int64_t j = 0; j < keys; j += 4) {
    const auto key = [&](int64_t i) { return k.at(std::min(j + i, keys - 1)); };
    const T *k0 = key(0), *k1 = key(1), *k2 = key(2), *k3 = key(3);
    V s0 = hn::Zero(F32()), s1 = s0, s2 = s0, s3 = s0;
    for_vectors(D, [&](int64_t d, auto lanes) HWY_ATTR {
      const V query = load(q + d, lanes);
      s0 = hn::MulAdd(query, load(k0 + d, lanes), s0);
      s1 = hn::MulAdd(query, load(k1 + d, lanes), s1);
      s2 = hn::MulAdd(query, load(k2 + d, lanes), s2);
      s3 = hn::MulAdd(query, load(k3 + d, lanes), s3);
    });
    hn::StoreU(sum_each(s0, s1, s2, s3), F32x4(), scores + j);  // kBlockKeys is a multiple of four
  }
}

/// Scores of kQueries queries (rows of q, D apart) and `keys` keys into scores[query][kBlockKeys].
template <int kQueries, class T>
void score_keys(const float* q, const Rows<T>& k, int64_t keys, int64_t D, float* scores) {
  if (kQueries == 1) return score_keys_once(q, k, keys, D, scores);
  for (int64_t j = 0; j < keys; ++j) {
    const T* row = k.at(j);
    V sums[kTileQueries];
    for (V& sum : sums) sum = hn::Zero(F32());
    for_vectors(D, [&](int64_t d, auto lanes) HWY_ATTR {
      const V key = load(row + d, lanes);
      for (int i = 0; i < kQueries; ++i) sums[i] = hn::MulAdd(load(q + i * D + d, lanes), key, sums[i]);
    });
    float each[4];
    hn::StoreU(sum_each(sums[0], sums[1], sums[2], sums[3]), F32x4(), each);
    for (int i = 0; i < kQueries; ++i) scores[i * kBlockKeys + j] = each[i];
  }
}

/// Scores to cap * tanh(scale * score / cap).
void cap_scores(float* scores, int64_t keys, float scale, float cap) {
  for_vectors(keys, [&](int64_t j, auto lanes) HWY_ATTR {
    store(scores + j, hn::Mul(splat(cap), tanh(hn::Mul(load(scores + j, lanes), splat(scale / cap)))), lanes);
  });
}

/// Scores to weights exp(scale * (score - maximum)), with the maximum and the total.
void weigh(float* scores, int64_t keys, float scale, Part& part) {
  V top = splat(-HUGE_VALF);
  for_vectors(keys, [&](int64_t j, auto lanes) HWY_ATTR {
    top = hn::Max(top, keep(load(scores + j, lanes), -HUGE_VALF, lanes));
  });
  const float most = hn::GetLane(hn::MaxOfLanes(F32(), top));
  V total = hn::Zero(F32());
  for_vectors(keys, [&](int64_t j, auto lanes) HWY_ATTR {
    const V weight = exp(hn::Mul(hn::Sub(load(scores + j, lanes), splat(most)), splat(scale)));
    store(scores + j, weight, lanes);
    total = hn::Add(total, keep(weight, 0, lanes));
  });
  part.top = most * scale;
  part.total = hn::GetLane(hn::SumOfLanes(F32(), total));
}

/// sums[d] = sum over keys of weight * v[key][d], for kQueries queries.
template <int kQueries, class T>
void sum_values(const float* weights, const Rows<T>& v, int64_t keys, int64_t D, Part* parts) {
  for_vectors(D, [&](int64_t d, auto lanes) HWY_ATTR {
    V sums[kQueries];
    for (int i = 0; i < kQueries; ++i) sums[i] = hn::Zero(F32());
    for (int64_t j = 0; j < keys; ++j) {
      const V value = load(v.at(j) + d, lanes);
      for (int i = 0; i < kQueries; ++i) sums[i] = hn::MulAdd(splat(weights[i * kBlockKeys + j]), value, sums[i]);
    }
    for (int i = 0; i < kQueries; ++i) store(parts[i].sums + d, sums[i], lanes);
  });
}

/// Numbers [first, first + D) of cache rows in 8 bits, as f32 [keys, D].
void widen_q8(const Rows<uint8_t>& rows, int64_t keys, int64_t width, int64_t first, int64_t D, float* out) {
  const hn::Rebind<int8_t, F32> i8;
  const hn::Rebind<int32_t, F32> i32;
  for (int64_t j = 0; j < keys; ++j, out += D) {
    const uint8_t* row = rows.at(j);
    const auto* numbers = reinterpret_cast<const int8_t*>(row) + first;
    for (int64_t d = 0; d < D; d += kLanes) {
      const V whole = hn::ConvertTo(F32(), hn::PromoteTo(i32, hn::LoadU(i8, numbers + d)));
      store(out + d, hn::Mul(whole, splat(q8_scale(row, width, (first + d) / kQ8Block))), Whole());
    }
  }
}

/// One row's query heads of one key/value head, and the keys that the row sees.
struct Unit {
  int64_t row, kv_head, first, end;
};

struct Cached {
  const CachedAttentionArgs& args;
  int64_t group, D;

  Unit unit(int64_t index) const {
    const int64_t row = index / args.kv_heads;
    return {row, index % args.kv_heads, args.first(row), args.position(row) + 1};
  }
  /// Positions that some row sees.
  int64_t positions() const {
    int64_t most = args.keys;
    for (int64_t row = 0; args.paths && row < args.q.rows; ++row) most = std::max(most, args.position(row) + 1);
    return most;
  }

  /// The rows of `m` from `column` on that the unit's positions from `position` on have.
  template <class T>
  Rows<T> rows_from(ConstMat m, const Unit& u, int64_t column, int64_t position) const {
    const T* first = m.row<T>(0) + column;
    const KeyPaths* paths = args.paths;
    const int64_t in_order = paths ? std::max<int64_t>(0, paths->shared - position) : args.keys;
    const int32_t* path = paths ? paths->rows + u.row * paths->stride + std::max<int64_t>(0, position - paths->shared)
                                : nullptr;
    return {first + position * m.stride, first, m.stride, in_order, path};
  }

  /// Keys and values of one block that a unit sees.
  template <class T>
  struct Block {
    Rows<T> k, v;
    int64_t keys;
  };

  /// Memory of one worker that run_block needs.
  int64_t wide_size() const { return args.k.dtype == DType::kU8 ? 2 * kBlockKeys * D : 0; }

  /// The parts of queries [query, query + kQueries) of the unit for the keys of one block.
  template <int kQueries, class T>
  void run_tile(const Unit& u, const Block<T>& block, int64_t query, Part* parts) const {
    alignas(64) float scores[kQueries * kBlockKeys];
    score_keys<kQueries>(args.q.row<float>(u.row) + (u.kv_head * group + query) * D, block.k, block.keys, D, scores);
    const bool capped = args.softcap > 0;
    for (int i = 0; i < kQueries; ++i) {
      if (capped) cap_scores(scores + i * kBlockKeys, block.keys, args.scale, args.softcap);
      weigh(scores + i * kBlockKeys, block.keys, capped ? 1 : args.scale, parts[i]);
    }
    sum_values<kQueries>(scores, block.v, block.keys, D, parts);
  }

  /// The same for all queries of the unit.
  template <class T>
  void run_tiles(const Unit& u, const Block<T>& block, Part* parts) const {
    using Tile = void (Cached::*)(const Unit&, const Block<T>&, int64_t, Part*) const;
    static constexpr Tile kTiles[] = {&Cached::run_tile<1, T>, &Cached::run_tile<2, T>, &Cached::run_tile<3, T>,
                                      &Cached::run_tile<4, T>};
    for (int64_t query = 0; query < group; query += kTileQueries) {
      const int64_t count = std::min<int64_t>(group - query, kTileQueries);
      (this->*kTiles[count - 1])(u, block, query, parts + query);
    }
  }

  /// Block number `block` of the cache. Keys and values in 8 bits are widened once for all queries that share them.
  template <class T>
  void run_block(const Unit& u, int64_t block, float* wide, Part* parts) const {
    const int64_t key = std::max(u.first, block * kBlockKeys), end = std::min(u.end, (block + 1) * kBlockKeys);
    const int64_t keys = end - key, column = u.kv_head * D;
    if constexpr (sizeof(T) == 1) {
      const int64_t width = args.kv_heads * D;
      float *k = wide, *v = wide + kBlockKeys * D;
      widen_q8(rows_from<T>(args.k, u, 0, key), keys, width, column, D, k);
      widen_q8(rows_from<T>(args.v, u, 0, key), keys, width, column, D, v);
      run_tiles<float>(u, {{k, nullptr, D, keys, nullptr}, {v, nullptr, D, keys, nullptr}, keys}, parts);
    } else {
      run_tiles<T>(u, {rows_from<T>(args.k, u, column, key), rows_from<T>(args.v, u, column, key), keys}, parts);
    }
  }

  void write(const Unit& u, int64_t query, const Part& part) const {
    float* out = args.out.row<float>(u.row) + (u.kv_head * group + query) * D;
    for_vectors(D, [&](int64_t d, auto lanes) HWY_ATTR {
      store(out + d, hn::Mul(load(part.sums + d, lanes), splat(1 / part.total)), lanes);
    });
  }
};

/// Each unit walks over its blocks.
template <class T>
void run_units(Context& ctx, const Cached& cached, int64_t units) {
  const int64_t group = cached.group, D = cached.D, parts_size = 2 * group * D;
  const int64_t part_bytes = 2 * group * int64_t(sizeof(Part));
  Scratch& memory = scratch(ctx);
  auto* parts = memory.get<std::byte>(Slot::kAttentionPartials, part_bytes * ctx.pool.size());
  float* sums = memory.get<float>(Slot::kAttention, parts_size * ctx.pool.size());
  float* wide = memory.get<float>(Slot::kAttentionWide, cached.wide_size() * ctx.pool.size());
  ctx.pool.parallel_for(units, [&](int64_t task, int worker) {
    Part* all = reinterpret_cast<Part*>(parts + worker * part_bytes);
    Part* next = all + group;
    for (int64_t i = 0; i < 2 * group; ++i) all[i].sums = sums + worker * parts_size + i * D;
    float* own = wide + worker * cached.wide_size();
    const Unit unit = cached.unit(task);
    const int64_t first = unit.first / kBlockKeys, last = (unit.end - 1) / kBlockKeys;
    cached.run_block<T>(unit, first, own, all);
    for (int64_t block = first + 1; block <= last; ++block) {
      cached.run_block<T>(unit, block, own, next);
      for (int64_t i = 0; i < group; ++i) join(all[i], next[i], D);
    }
    for (int64_t i = 0; i < group; ++i) cached.write(unit, i, all[i]);
  });
}

/// Each block of each unit is a task; then the parts are joined in the same order.
template <class T>
void run_blocks(Context& ctx, const Cached& cached, int64_t units) {
  const int64_t group = cached.group, D = cached.D, blocks = (cached.positions() + kBlockKeys - 1) / kBlockKeys;
  Scratch& memory = scratch(ctx);
  Part* parts = memory.get<Part>(Slot::kAttentionPartials, units * blocks * group);
  float* sums = memory.get<float>(Slot::kAttention, units * blocks * group * D);
  float* wide = memory.get<float>(Slot::kAttentionWide, cached.wide_size() * ctx.pool.size());
  const auto sees = [&](const Unit& u, int64_t block) {
    return (block + 1) * kBlockKeys > u.first && block * kBlockKeys < u.end;
  };
  ctx.pool.parallel_for(units * blocks, [&](int64_t task, int worker) {
    const Unit unit = cached.unit(task % units);
    const int64_t block = task / units, at = (task % units * blocks + block) * group;
    if (!sees(unit, block)) return;
    for (int64_t i = 0; i < group; ++i) parts[at + i].sums = sums + (at + i) * D;
    cached.run_block<T>(unit, block, wide + worker * cached.wide_size(), parts + at);
  });
  for (int64_t index = 0; index < units; ++index) {
    const Unit unit = cached.unit(index);
    const int64_t first = unit.first / kBlockKeys, last = (unit.end - 1) / kBlockKeys;
    for (int64_t i = 0; i < group; ++i) {
      Part& all = parts[(index * blocks + first) * group + i];
      for (int64_t block = first + 1; block <= last; ++block)
        join(all, parts[(index * blocks + block) * group + i], D);
      cached.write(unit, i, all);
    }
  }
}

template <class T>
void run_typed(Context& ctx, const CachedAttentionArgs& args) {
  const Cached cached{args, args.heads / args.kv_heads, args.head_size};
  const int64_t units = args.q.rows * args.kv_heads;
  if (units < kTasksWanted && args.keys > kBlockKeys)
    run_blocks<T>(ctx, cached, units);
  else
    run_units<T>(ctx, cached, units);
}

void run(Context& ctx, const CachedAttentionArgs& args) {
  if (args.k.dtype == DType::kU8) return run_typed<uint8_t>(ctx, args);
  visit_float(args.k.dtype, [&](auto t) { run_typed<decltype(t)>(ctx, args); });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace espalier
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace espalier::cpu {

void cached_attention(Context& ctx, const CachedAttentionArgs& args) {
  ESP_CHECK(args.kv_heads > 0 && args.heads % args.kv_heads == 0, "{} heads share {} key heads", args.heads,
            args.kv_heads);
  ESP_CHECK(args.keys >= args.q.rows && args.k.rows >= args.keys && args.v.rows >= args.keys,
            "{} new rows, {} positions, cache of {} and {}", args.q.rows, args.keys, args.k.rows, args.v.rows);
  ESP_CHECK(args.k.dtype == args.v.dtype, "k {}, v {}", dtype_name(args.k.dtype), dtype_name(args.v.dtype));
  ESP_CHECK(args.k.dtype != DType::kU8 || args.head_size % kQ8Block == 0, "heads of {} in 8 bits", args.head_size);
  ESP_SIMD(ctx, run)(ctx, args);
}

}  // namespace espalier::cpu
#endif  // HWY_ONCE
