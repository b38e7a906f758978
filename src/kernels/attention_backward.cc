// Attention, backward. A task takes the keys of one chunk of one key/value head and walks over tiles of keys, and for
// each tile over the blocks of queries that see it:
//   S = Q K^T, dP = dO V^T        [queries, keys], keys side by side in vectors
//   P = exp(S - lse), dS = P * (dP - delta), delta = rowsum(dO * O)
//   dV^T += dO^T P, dK^T += Q^T dS   [D, keys], kept for the tile: P and dS are the panels these products want
//   dQ += dS K                       [queries, D], for which dS alone is turned
// dK and dV are complete within the task; dQ gathers a part a chunk, and the parts are added in order: the bits do not
// depend on the threads. Pairs of panels that the mask hides wholly are never computed. Q is scaled when it is packed.
// With many heads and sequences there is one chunk, and a task packs for itself, into memory that stays in its cache.
#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/cache.h"
#include "kernels/entries.h"
#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_backward.cc"
#include "hwy/foreach_target.h"
#include "kernels/math-inl.h"
#include "kernels/pack-inl.h"
#include "kernels/panels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace espalier {
namespace HWY_NAMESPACE {
namespace {

constexpr int64_t kTilePanels = 128 / kPanelColumns, kTileKeys = kTilePanels * kPanelColumns;
constexpr int64_t kBlockQueries = 112 / kPanelRows * kPanelRows;
constexpr int64_t kMostChunks = 4, kTasksWanted = 32;

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t aligned(int64_t n) { return ceil_div(n, 16) * 16; }

/// A walk over one buffer, 64 bytes at a time.
struct Carver {
  float* at;
  float* take(int64_t n) { return std::exchange(at, at + aligned(n)); }
};

/// One worker's memory.
struct Workspace {
  float *p, *ds;   ///< [kTilePanels][kBlockQueries, kPanelColumns]: S becomes P, dP becomes dS
  float* turned;   ///< dS^T of one panel of queries [kTileKeys, kPanelRows]
  float *dk, *dv;  ///< dK^T, dV^T [kTilePanels][D, kPanelColumns]
  float* rows;     ///< [kPanelColumns, D], on the way out
  static int64_t size(int64_t d) {
    return 2 * kTileKeys * kBlockQueries + aligned(kTileKeys * kPanelRows) + 3 * aligned(kTileKeys * d);
  }
  Workspace(float* memory, int64_t d) {
    Carver carve{memory};
    p = carve.take(kTileKeys * kBlockQueries);
    ds = carve.take(kTileKeys * kBlockQueries);
    turned = carve.take(kTileKeys * kPanelRows);
    dk = carve.take(kTileKeys * d);
    dv = carve.take(kTileKeys * d);
    rows = carve.take(kTileKeys * d);
  }
};

/// The packed operands of one query head of one sequence.
struct QueryPack {
  float *q_panels, *do_panels;  ///< panels of kPanelRows queries, D deep
  float *q, *dout;              ///< [T, D]
  float* delta;                 ///< [T]
};
/// And of one key/value head: K^T and V^T in panels of kPanelColumns keys, D deep; K in panels of kPanelColumns
/// columns, T deep.
struct KeyPack {
  float *k_keys, *v_keys, *k_columns;
};

/// One key/value head of one sequence with its query heads, and the memory for what is packed of them.
struct Group {
  int64_t sequence, kv_head;
  float* memory;
};

struct Backward {
  const AttentionBackwardArgs& args;
  int64_t D, T, heads, chunks;  ///< heads: query heads of a group

  explicit Backward(const AttentionBackwardArgs& a)
      : args(a), D(a.shape.head_size), T(a.shape.rows), heads(a.shape.heads / a.shape.kv_heads) {
    chunks = std::clamp<int64_t>(ceil_div(kTasksWanted, groups()), 1, std::min(kMostChunks, ceil_div(T, kTileKeys)));
  }

  int64_t groups() const { return args.shape.sequences * args.shape.kv_heads; }
  Group group(int64_t index, float* memory) const {
    return {index / args.shape.kv_heads, index % args.shape.kv_heads, memory};
  }
  int64_t query_pack_size() const { return 2 * aligned(padded_queries() * D) + 2 * aligned(T * D) + aligned(T); }
  int64_t key_pack_size() const { return 2 * padded_keys() * D + column_panels() * T * kPanelColumns; }
  int64_t group_size() const {
    return key_pack_size() + heads * (query_pack_size() + chunks * aligned(T * D));
  }
  int64_t padded_queries() const { return ceil_div(T, kPanelRows) * kPanelRows; }
  int64_t padded_keys() const { return ceil_div(T, kPanelColumns) * kPanelColumns; }
  int64_t column_panels() const { return ceil_div(D, kPanelColumns); }

  KeyPack keys_of(const Group& g) const {
    return {g.memory, g.memory + padded_keys() * D, g.memory + 2 * padded_keys() * D};
  }
  QueryPack queries_of(const Group& g, int64_t head) const {
    Carver carve{g.memory + key_pack_size() + head * query_pack_size()};
    const int64_t panels = padded_queries() * D;
    return {carve.take(panels), carve.take(panels), carve.take(T * D), carve.take(T * D), carve.take(T)};
  }
  /// The part of dQ that a chunk gathers [T, D].
  float* dq_part(const Group& g, int64_t head, int64_t chunk) const {
    return g.memory + key_pack_size() + heads * query_pack_size() + (head * chunks + chunk) * aligned(T * D);
  }
  /// Where a head of the group begins in q, out, dout and dq.
  int64_t query_column(const Group& g, int64_t head) const { return (g.kv_head * heads + head) * D; }
  /// Keys of a chunk, whole tiles. Under a causal mask an equal share of the pairs: key j is seen by T - j queries.
  int64_t chunk_begin(int64_t chunk) const {
    const double left = std::sqrt(1 - double(chunk) / double(chunks));
    return chunk == chunks ? T : int64_t(double(T) * (1 - left)) / kTileKeys * kTileKeys;
  }

  template <class T_>
  void pack_queries(const Group& g, int64_t head) const;
  template <class T_>
  void pack_keys(const Group& g) const;
  template <class T_>
  void run_chunk(const Group& g, int64_t chunk, Workspace work) const;
  template <class T_>
  void write_dq(const Group& g, int64_t head) const;
};

/// Queries [begin, end) of one head against keys [key, key_end): the block at work.
struct Block {
  QueryPack queries;
  KeyPack keys;
  int64_t begin, end, key, key_end;
  const AttentionShape& shape;
  int64_t row;  ///< the first of the sequence, of all rows
  const float* lse;          ///< of the sequence and head
  float* dq;
  /// The first query of the block, on a border of panels, with a panel that sees keys from `from` on.
  int64_t first_seeing(int64_t from) const { return std::max(begin, from / kPanelRows * kPanelRows); }
};

template <class T_>
void Backward::pack_queries(const Group& g, int64_t head) const {
  const QueryPack to = queries_of(g, head);
  const int64_t row = g.sequence * T, column = query_column(g, head);
  const auto source = [&](const ConstMat& m) { return m.row<T_>(row) + column; };
  pack_columns(source(args.q), args.q.stride, D, T, to.q, D);
  pack_columns(source(args.dout), args.dout.stride, D, T, to.dout, D);
  for (int64_t i = 0; i < T; ++i) {
    float* q = to.q + i * D;
    const T_* out = args.out.row<T_>(row + i) + column;
    const float* dout = to.dout + i * D;
    to.delta[i] = sum_vectors<1>(D, [&](int64_t d, auto lanes, V* sums) HWY_ATTR {
      store(q + d, hn::Mul(load(q + d, lanes), splat(args.shape.scale)), lanes);
      sums[0] = hn::MulAdd(load(out + d, lanes), load(dout + d, lanes), sums[0]);
    })[0];
  }
  for (int64_t i = 0; i < T; i += kPanelRows) {
    const int64_t rows = std::min(kPanelRows, T - i);
    pack_rows(to.q + i * D, D, rows, D, to.q_panels + i * D, rows);
    pack_rows(to.dout + i * D, D, rows, D, to.do_panels + i * D, rows);
  }
}

template <class T_>
void Backward::pack_keys(const Group& g) const {
  const KeyPack to = keys_of(g);
  const T_* k = args.k.row<T_>(g.sequence * T) + g.kv_head * D;
  const T_* v = args.v.row<T_>(g.sequence * T) + g.kv_head * D;
  for (int64_t j = 0; j < T; j += kPanelColumns) {
    const int64_t keys = std::min(kPanelColumns, T - j);
    pack_rows(k + j * args.k.stride, args.k.stride, keys, D, to.k_keys + j * D, kPanelColumns);
    pack_rows(v + j * args.v.stride, args.v.stride, keys, D, to.v_keys + j * D, kPanelColumns);
  }
  for (int64_t d = 0; d < D; d += kPanelColumns)
    pack_columns(k + d, args.k.stride, std::min(kPanelColumns, D - d), T, to.k_columns + d * T, kPanelColumns);
}

/// S into p and dP into ds, for the pairs of panels that see each other.
void score(const Block& b, int64_t D, const Workspace& work) {
  for (int64_t key = b.key; key < b.key_end; key += kPanelColumns) {
    const int64_t offset = (key - b.key) * kBlockQueries;
    for (int64_t i = b.first_seeing(key); i < b.end; i += kPanelRows) {
      const int64_t rows = std::min(kPanelRows, b.end - i), at = offset + (i - b.begin) * kPanelColumns;
      multiply_panels(rows, {b.queries.q_panels + i * D, rows, b.keys.k_keys + key * D, D},
                      {.c = work.p + at, .stride = kPanelColumns});
      multiply_panels(rows, {b.queries.do_panels + i * D, rows, b.keys.v_keys + key * D, D},
                      {.c = work.ds + at, .stride = kPanelColumns});
    }
  }
}

/// P and dS in place of S and dP; zero where the mask hides. kCapped: with the soft cap and its slope.
template <bool kCapped>
void differentiate(const Block& b, const Workspace& work) {
  alignas(64) float places[kPanelColumns];
  const V cap = splat(b.shape.softcap), shrink = splat(kCapped ? 1 / b.shape.softcap : 0);
  for (int64_t key = b.key; key < b.key_end; key += kPanelColumns) {
    for (int64_t j = 0; j < kPanelColumns; ++j) places[j] = float(key + j);
    for (int64_t i = b.first_seeing(key); i < b.end; ++i) {
      const int64_t at = (key - b.key) * kBlockQueries + (i - b.begin) * kPanelColumns;
      const int64_t first_key = b.shape.first(b.row + i);
      const bool masked = key + kPanelColumns - 1 > i || key < first_key;
      const V lse = splat(b.lse[i]), delta = splat(b.queries.delta[i]);
      const V first = splat(float(first_key)), last = splat(float(i));
      for (int64_t half = 0; half < kPanelColumns; half += kLanes) {
        float *p = work.p + at + half, *ds = work.ds + at + half;
        V score = load(p, Whole()), slope = splat(1);
        if constexpr (kCapped) {
          const V bent = tanh(hn::Mul(score, shrink));
          score = hn::Mul(cap, bent);
          slope = hn::NegMulAdd(bent, bent, slope);
        }
        V weight = exp(hn::Sub(score, lse));
        if (masked) {
          const V place = load(places + half, Whole());
          weight = hn::IfThenElseZero(hn::And(hn::Ge(place, first), hn::Le(place, last)), weight);
        }
        store(p, weight, Whole());
        const V d = hn::Mul(weight, hn::Sub(load(ds, Whole()), delta));
        store(ds, kCapped ? hn::Mul(d, slope) : d, Whole());
      }
    }
  }
}

/// dV^T += dO^T P and dK^T += Q^T dS.
void add_to_keys(const Block& b, int64_t D, const Workspace& work) {
  const RowPanels columns{D};
  for (int64_t key = b.key; key < b.key_end; key += kPanelColumns) {
    const int64_t i = b.first_seeing(key), depth = b.end - i;
    if (depth <= 0) continue;
    const int64_t at = (key - b.key) * kBlockQueries + (i - b.begin) * kPanelColumns;
    for (int64_t c = 0; c < columns.count; ++c) {
      const int64_t d = columns.begin(c), rows = columns.height(c), to = (key - b.key) * D + d * kPanelColumns;
      multiply_panels(rows, {b.queries.dout + i * D + d, D, work.p + at, depth},
                      {.c = work.dv + to, .stride = kPanelColumns, .accumulate = true});
      multiply_panels(rows, {b.queries.q + i * D + d, D, work.ds + at, depth},
                      {.c = work.dk + to, .stride = kPanelColumns, .accumulate = true});
    }
  }
}

/// dQ += dS K, up to the last key that a panel of queries sees.
void add_to_queries(const Block& b, int64_t D, int64_t T, const Workspace& work) {
  for (int64_t i = b.first_seeing(b.key); i < b.end; i += kPanelRows) {
    const int64_t rows = std::min(kPanelRows, b.end - i), depth = std::min(b.key_end, i + rows) - b.key;
    for (int64_t k = 0; k < depth; k += kPanelColumns)
      transpose(work.ds + k * kBlockQueries + (i - b.begin) * kPanelColumns, kPanelColumns, rows,
                std::min(kPanelColumns, depth - k), work.turned + k * rows, rows);
    for (int64_t d = 0; d < D; d += kPanelColumns)
      multiply_panels(rows, {work.turned, rows, b.keys.k_columns + d * T + b.key * kPanelColumns, depth},
                      {.c = b.dq + i * D + d, .stride = D, .columns = std::min(kPanelColumns, D - d),
                       .accumulate = true});
  }
}

/// dst rows [key, key_end) of one head from its transpose in panels of keys.
template <class T_>
void write_keys(const float* sums, int64_t D, int64_t keys, float* rows, T_* dst, int64_t stride) {
  for (int64_t j = 0; j < keys; j += kPanelColumns) {
    const int64_t count = std::min(kPanelColumns, keys - j);
    transpose(sums + j * D, kPanelColumns, D, count, rows, D);
    for (int64_t i = 0; i < count; ++i)
      for_vectors(D, [&](int64_t d, auto lanes) HWY_ATTR {
        store(dst + (j + i) * stride + d, load(rows + i * D + d, lanes), lanes);
      });
  }
}

template <class T_>
void Backward::run_chunk(const Group& g, int64_t chunk, Workspace work) const {
  const int64_t row = g.sequence * T, begin = chunk_begin(chunk), end = chunk_begin(chunk + 1);
  const auto least_first = [&](int64_t i, int64_t i_end) {
    int64_t least = T;
    for (; i < i_end; ++i) least = std::min(least, args.shape.first(row + i));
    return least;
  };
  for (int64_t h = 0; h < heads; ++h) std::fill_n(dq_part(g, h, chunk), T * D, 0.0f);
  for (int64_t key = begin; key < end; key += kTileKeys) {
    const int64_t key_end = std::min(key + kTileKeys, end);
    std::fill_n(work.dk, kTileKeys * D, 0.0f);
    std::fill_n(work.dv, kTileKeys * D, 0.0f);
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = key / kBlockQueries * kBlockQueries; i < T; i += kBlockQueries) {
        const int64_t i_end = std::min(i + kBlockQueries, T);
        if (least_first(i, i_end) >= key_end) continue;
        const float* lse = args.lse.row<float>(g.kv_head * heads + h) + row;
        const Block block{queries_of(g, h), keys_of(g), i, i_end, key, key_end,
                          args.shape, row, lse, dq_part(g, h, chunk)};
        score(block, D, work);
        if (args.shape.softcap > 0)
          differentiate<true>(block, work);
        else
          differentiate<false>(block, work);
        add_to_keys(block, D, work);
        add_to_queries(block, D, T, work);
      }
    const int64_t column = g.kv_head * D;
    write_keys(work.dk, D, key_end - key, work.rows, args.dk.row<T_>(row + key) + column, args.dk.stride);
    write_keys(work.dv, D, key_end - key, work.rows, args.dv.row<T_>(row + key) + column, args.dv.stride);
  }
}

template <class T_>
void Backward::write_dq(const Group& g, int64_t head) const {
  for (int64_t i = 0; i < T; ++i) {
    T_* to = args.dq.row<T_>(g.sequence * T + i) + query_column(g, head);
    for_vectors(D, [&](int64_t d, auto lanes) HWY_ATTR {
      V sum = load(dq_part(g, head, 0) + i * D + d, lanes);
      for (int64_t chunk = 1; chunk < chunks && chunk_begin(chunk) <= i; ++chunk)
        sum = hn::Add(sum, load(dq_part(g, head, chunk) + i * D + d, lanes));
      store(to + d, hn::Mul(sum, splat(args.shape.scale)), lanes);
    });
  }
}

/// A task a group, from packing to dQ.
template <class T_>
void run_groups(Context& ctx, const Backward& backward) {
  const int64_t work_size = Workspace::size(backward.D), group_size = backward.group_size();
  Carver carve{scratch(ctx).get<float>(Slot::kAttention, ctx.pool.size() * (group_size + work_size))};
  float* packs = carve.take(ctx.pool.size() * group_size);
  float* workspaces = carve.take(ctx.pool.size() * work_size);
  ctx.pool.parallel_for(backward.groups(), [&](int64_t task, int worker) {
    const Group group = backward.group(task, packs + worker * group_size);
    for (int64_t h = 0; h < backward.heads; ++h) backward.pack_queries<T_>(group, h);
    backward.pack_keys<T_>(group);
    backward.run_chunk<T_>(group, 0, {workspaces + worker * work_size, backward.D});
    for (int64_t h = 0; h < backward.heads; ++h) backward.write_dq<T_>(group, h);
  });
}

/// A task a chunk; what is packed is shared.
template <class T_>
void run_chunks(Context& ctx, const Backward& backward) {
  const int64_t work_size = Workspace::size(backward.D), group_size = backward.group_size();
  const int64_t groups = backward.groups(), heads = backward.heads;
  Carver carve{scratch(ctx).get<float>(Slot::kAttention, groups * group_size + ctx.pool.size() * work_size)};
  float* packs = carve.take(groups * group_size);
  float* workspaces = carve.take(ctx.pool.size() * work_size);
  const auto group = [&](int64_t index) { return backward.group(index, packs + index * group_size); };

  ctx.pool.parallel_for(groups * (heads + 1), [&](int64_t task, int) {
    if (task % (heads + 1) < heads)
      backward.pack_queries<T_>(group(task / (heads + 1)), task % (heads + 1));
    else
      backward.pack_keys<T_>(group(task / (heads + 1)));
  });
  ctx.pool.parallel_for(groups * backward.chunks, [&](int64_t task, int worker) {
    backward.run_chunk<T_>(group(task % groups), task / groups, {workspaces + worker * work_size, backward.D});
  });
  ctx.pool.parallel_for(groups * heads,
                        [&](int64_t task, int) { backward.write_dq<T_>(group(task / heads), task % heads); });
}

template <class T_>
void run(Context& ctx, const AttentionBackwardArgs& args) {
  if (args.shape.sequences == 0 || args.shape.rows == 0) return;
  const Backward backward(args);
  if (backward.chunks == 1)
    run_groups<T_>(ctx, backward);
  else
    run_chunks<T_>(ctx, backward);
}

void run_any(Context& ctx, const AttentionBackwardArgs& args) {
  visit_float(args.q.dtype, [&](auto t) { run<decltype(t)>(ctx, args); });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace espalier
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace espalier::cpu {

void attention_backward(Context& ctx, const AttentionBackwardArgs& args) {
  for (DType dtype : {args.k.dtype, args.v.dtype, args.out.dtype, args.dout.dtype, args.dq.dtype, args.dk.dtype,
                      args.dv.dtype})
    ESP_CHECK(dtype == args.q.dtype, "{} beside q {}", dtype_name(dtype), dtype_name(args.q.dtype));
  ESP_SIMD(ctx, run_any)(ctx, args);
}

}  // namespace espalier::cpu
#endif  // HWY_ONCE
