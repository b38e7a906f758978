// Attention, backward. A task takes the keys of one chunk of one key/value head and walks over tiles of keys, and for
// each tile over the blocks of queries that see it:
//   S = Q K^T, dP = dO V^T        [queries, keys], keys side by side in vectors
//   P = exp(S - lse), dS = P * (dP - delta), delta = rowsum(dO * O)
//   dV^T += dO^T P, dK^T += Q^T dS   [D, keys], kept for the tile: P and dS are the panels these products want
//   dQ += dS K                       [queries, D], for which dS alone is turned
// dK and dV are complete within the task; dQ gathers a part a chunk, and the parts are added in order: the bits do not
// depend on the threads. Pairs of panels that the mask hides wholly are never computed. Q is scaled when it is packed.
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

struct Backward {
  const AttentionBackwardArgs& args;
  int64_t D, T, chunks;
  float *query_packs = nullptr, *key_packs = nullptr, *dq_parts = nullptr, *workspaces = nullptr;

  explicit Backward(const AttentionBackwardArgs& a) : args(a), D(a.shape.head_size), T(a.shape.rows) {
    const int64_t tasks = std::max<int64_t>(1, a.shape.sequences * a.shape.kv_heads);
    chunks = std::clamp<int64_t>(ceil_div(kTasksWanted, tasks), 1, std::min(kMostChunks, ceil_div(T, kTileKeys)));
  }

  int64_t group() const { return args.shape.heads / args.shape.kv_heads; }
  int64_t query_pack_size() const { return 2 * aligned(padded_queries() * D) + 2 * aligned(T * D) + aligned(T); }
  int64_t key_pack_size() const { return 2 * padded_keys() * D + column_panels() * T * kPanelColumns; }
  int64_t padded_queries() const { return ceil_div(T, kPanelRows) * kPanelRows; }
  int64_t padded_keys() const { return ceil_div(T, kPanelColumns) * kPanelColumns; }
  int64_t column_panels() const { return ceil_div(D, kPanelColumns); }

  QueryPack queries_of(int64_t sequence, int64_t head) const {
    Carver carve{query_packs + (sequence * args.shape.heads + head) * query_pack_size()};
    const int64_t panels = padded_queries() * D;
    return {carve.take(panels), carve.take(panels), carve.take(T * D), carve.take(T * D), carve.take(T)};
  }
  KeyPack keys_of(int64_t sequence, int64_t kv_head) const {
    float* k = key_packs + (sequence * args.shape.kv_heads + kv_head) * key_pack_size();
    return {k, k + padded_keys() * D, k + 2 * padded_keys() * D};
  }
  /// The part of dQ that chunk c gathers [T, D].
  float* dq_part(int64_t sequence, int64_t head, int64_t chunk) const {
    return dq_parts + ((sequence * args.shape.heads + head) * chunks + chunk) * aligned(T * D);
  }
  /// Keys of a chunk, whole tiles. Under a causal mask an equal share of the pairs: key j is seen by T - j queries.
  int64_t chunk_begin(int64_t chunk) const {
    const double left = std::sqrt(1 - double(chunk) / double(chunks));
    return chunk == chunks ? T : int64_t(double(T) * (1 - left)) / kTileKeys * kTileKeys;
  }

  template <class T_>
  void pack_queries(int64_t sequence, int64_t head) const;
  template <class T_>
  void pack_keys(int64_t sequence, int64_t kv_head) const;
  template <class T_>
  void run_chunk(int64_t sequence, int64_t kv_head, int64_t chunk, Workspace work) const;
  template <class T_>
  void write_dq(int64_t sequence, int64_t head) const;
};

/// Queries [begin, end) of one head against keys [key, key_end): the block at work.
struct Block {
  QueryPack queries;
  KeyPack keys;
  int64_t begin, end, key, key_end;
  const int32_t* first_key;  ///< of the sequence
  const float* lse;          ///< of the sequence and head
  float* dq;
  /// The first query of the block, on a border of panels, with a panel that sees keys from `from` on.
  int64_t first_seeing(int64_t from) const { return std::max(begin, from / kPanelRows * kPanelRows); }
};

template <class T_>
void Backward::pack_queries(int64_t sequence, int64_t head) const {
  const QueryPack to = queries_of(sequence, head);
  const int64_t row = sequence * T;
  const auto source = [&](const ConstMat& m) { return m.row<T_>(row) + head * D; };
  pack_columns(source(args.q), args.q.stride, D, T, to.q, D);
  pack_columns(source(args.dout), args.dout.stride, D, T, to.dout, D);
  for (int64_t i = 0; i < T; ++i) {
    float* q = to.q + i * D;
    const T_* out = args.out.row<T_>(row + i) + head * D;
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
void Backward::pack_keys(int64_t sequence, int64_t kv_head) const {
  const KeyPack to = keys_of(sequence, kv_head);
  const T_* k = args.k.row<T_>(sequence * T) + kv_head * D;
  const T_* v = args.v.row<T_>(sequence * T) + kv_head * D;
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

/// P and dS in place of S and dP; zero where the mask hides.
void differentiate(const Block& b, const Workspace& work) {
  alignas(64) float places[kPanelColumns];
  for (int64_t key = b.key; key < b.key_end; key += kPanelColumns) {
    for (int64_t j = 0; j < kPanelColumns; ++j) places[j] = float(key + j);
    for (int64_t i = b.first_seeing(key); i < b.end; ++i) {
      const int64_t at = (key - b.key) * kBlockQueries + (i - b.begin) * kPanelColumns;
      const bool masked = key + kPanelColumns - 1 > i || key < b.first_key[i];
      const V lse = splat(b.lse[i]), delta = splat(b.queries.delta[i]);
      const V first = splat(float(b.first_key[i])), last = splat(float(i));
      for (int64_t half = 0; half < kPanelColumns; half += kLanes) {
        float *p = work.p + at + half, *ds = work.ds + at + half;
        V weight = exp(hn::Sub(load(p, Whole()), lse));
        if (masked) {
          const V place = load(places + half, Whole());
          weight = hn::IfThenElseZero(hn::And(hn::Ge(place, first), hn::Le(place, last)), weight);
        }
        store(p, weight, Whole());
        store(ds, hn::Mul(weight, hn::Sub(load(ds, Whole()), delta)), Whole());
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
void Backward::run_chunk(int64_t sequence, int64_t kv_head, int64_t chunk, Workspace work) const {
  const int64_t row = sequence * T, begin = chunk_begin(chunk), end = chunk_begin(chunk + 1);
  const int32_t* first_key = args.shape.first_key + row;
  for (int64_t h = kv_head * group(); h < (kv_head + 1) * group(); ++h)
    std::fill_n(dq_part(sequence, h, chunk), T * D, 0.0f);
  for (int64_t key = begin; key < end; key += kTileKeys) {
    const int64_t key_end = std::min(key + kTileKeys, end);
    std::fill_n(work.dk, kTileKeys * D, 0.0f);
    std::fill_n(work.dv, kTileKeys * D, 0.0f);
    for (int64_t h = kv_head * group(); h < (kv_head + 1) * group(); ++h)
      for (int64_t i = key / kBlockQueries * kBlockQueries; i < T; i += kBlockQueries) {
        const int64_t i_end = std::min(i + kBlockQueries, T);
        if (*std::min_element(first_key + i, first_key + i_end) >= key_end) continue;
        const Block block{queries_of(sequence, h), keys_of(sequence, kv_head), i, i_end, key, key_end, first_key,
                          args.lse.row<float>(h) + row, dq_part(sequence, h, chunk)};
        score(block, D, work);
        differentiate(block, work);
        add_to_keys(block, D, work);
        add_to_queries(block, D, T, work);
      }
    const int64_t column = kv_head * D;
    write_keys(work.dk, D, key_end - key, work.rows, args.dk.row<T_>(row + key) + column, args.dk.stride);
    write_keys(work.dv, D, key_end - key, work.rows, args.dv.row<T_>(row + key) + column, args.dv.stride);
  }
}

template <class T_>
void Backward::write_dq(int64_t sequence, int64_t head) const {
  for (int64_t i = 0; i < T; ++i) {
    T_* to = args.dq.row<T_>(sequence * T + i) + head * D;
    for_vectors(D, [&](int64_t d, auto lanes) HWY_ATTR {
      V sum = load(dq_part(sequence, head, 0) + i * D + d, lanes);
      for (int64_t chunk = 1; chunk < chunks && chunk_begin(chunk) <= i; ++chunk)
        sum = hn::Add(sum, load(dq_part(sequence, head, chunk) + i * D + d, lanes));
      store(to + d, hn::Mul(sum, splat(args.shape.scale)), lanes);
    });
  }
}

template <class T_>
void run(Context& ctx, const AttentionBackwardArgs& args) {
  const AttentionShape& shape = args.shape;
  Backward backward(args);
  const int64_t heads = shape.sequences * shape.heads, kv_heads = shape.sequences * shape.kv_heads;
  const int64_t work_size = Workspace::size(backward.D);
  const int64_t dq_size = heads * backward.chunks * aligned(backward.T * backward.D);
  Carver carve{scratch(ctx).get<float>(Slot::kAttention, heads * backward.query_pack_size() +
                                                             kv_heads * backward.key_pack_size() + dq_size +
                                                             ctx.pool.size() * work_size)};
  backward.query_packs = carve.take(heads * backward.query_pack_size());
  backward.key_packs = carve.take(kv_heads * backward.key_pack_size());
  backward.dq_parts = carve.take(dq_size);
  backward.workspaces = carve.take(ctx.pool.size() * work_size);

  ctx.pool.parallel_for(heads + kv_heads, [&](int64_t task, int) {
    if (task < heads)
      backward.pack_queries<T_>(task / shape.heads, task % shape.heads);
    else
      backward.pack_keys<T_>((task - heads) / shape.kv_heads, (task - heads) % shape.kv_heads);
  });
  ctx.pool.parallel_for(kv_heads * backward.chunks, [&](int64_t task, int worker) {
    const int64_t head = task % kv_heads;
    backward.run_chunk<T_>(head / shape.kv_heads, head % shape.kv_heads, task / kv_heads,
                           {backward.workspaces + worker * work_size, backward.D});
  });
  ctx.pool.parallel_for(
      heads, [&](int64_t task, int) { backward.write_dq<T_>(task / shape.heads, task % shape.heads); });
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
