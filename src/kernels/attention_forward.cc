// Attention, forward. A task takes one head and a tile of kPanelColumns queries, which lie side by side in vectors:
//   S^T = K Q^T   [keys, queries]: panels of keys times the panel of queries
//   P^T = exp(S^T - max over keys), after the soft cap if there is one: lane by lane, without a sum across a vector
//   O^T = V^T P^T [D, queries]: P^T is already the panel that this product wants
// K and V are packed once a key/value head: first, for all tasks, or, with many heads and sequences, by the task that
// takes all tiles of a head, into memory that stays in its cache.
// Keys come in blocks; from the second on, what was summed so far is rescaled to the new maximum (online softmax).
#include <cmath>

#include "kernels/cache.h"
#include "kernels/entries.h"
#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_forward.cc"
#include "hwy/foreach_target.h"
#include "kernels/math-inl.h"
#include "kernels/pack-inl.h"
#include "kernels/panels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace espalier {
namespace HWY_NAMESPACE {
namespace {

/// Keys of a block: its scores fill a part of the first cache.
constexpr int64_t kBlockKeys = (192 + kPanelRows - 1) / kPanelRows * kPanelRows;
/// Stands for minus infinity, so that differences of two such are not NaN. What a query sums up before its first
/// visible key is wiped out by exp(kHidden - score) = 0 at that key.
constexpr float kHidden = -1e30f;
/// With as many key/value heads (of all sequences) each is one task.
constexpr int64_t kGroupsWanted = 32;

constexpr int64_t aligned(int64_t n) { return (n + 15) / 16 * 16; }

/// One worker's memory.
struct Workspace {
  float* scores;   ///< S^T, then P^T [kBlockKeys, kPanelColumns]
  float* queries;  ///< Q^T [D, kPanelColumns], scaled
  float* sums;     ///< O^T [D, kPanelColumns]
  float* out;      ///< O [kPanelColumns, D]
  static int64_t size(int64_t d) { return kPanelColumns * (kBlockKeys + 3 * d); }
  Workspace(float* memory, int64_t d)
      : scores(memory),
        queries(scores + kBlockKeys * kPanelColumns),
        sums(queries + d * kPanelColumns),
        out(sums + d * kPanelColumns) {}
};

/// What the queries of a tile see, and their softmax so far, a lane each.
struct TileState {
  alignas(64) float first[kPanelColumns], self[kPanelColumns];  ///< first and last visible key
  alignas(64) float top[kPanelColumns], total[kPanelColumns];   ///< maximum, and sum of exp(score - maximum)
  int64_t begin, queries;          ///< within the sequence
  int64_t least_first, most_first;  ///< of `first`
};

/// One key/value head of one sequence, and the memory for what is packed of it.
struct Group {
  int64_t sequence, kv_head;
  float* memory;
};

struct Forward {
  const AttentionForwardArgs& args;
  int64_t D, T, heads;  ///< heads: query heads of a group

  explicit Forward(const AttentionForwardArgs& a)
      : args(a), D(a.shape.head_size), T(a.shape.rows), heads(a.shape.heads / a.shape.kv_heads) {}

  int64_t groups() const { return args.shape.sequences * args.shape.kv_heads; }
  Group group(int64_t index, float* memory) const {
    return {index / args.shape.kv_heads, index % args.shape.kv_heads, memory};
  }
  int64_t key_panels() const { return (T + kPanelRows - 1) / kPanelRows; }
  int64_t tiles() const { return (T + kPanelColumns - 1) / kPanelColumns; }
  int64_t group_size() const { return aligned(key_panels() * kPanelRows * D) + aligned(T * D); }
  /// K in panels of kPanelRows keys; V as rows of D numbers.
  float* k_of(const Group& g) const { return g.memory; }
  float* v_of(const Group& g) const { return g.memory + aligned(key_panels() * kPanelRows * D); }

  template <class T_>
  void pack(const Group& g, int64_t panel, int64_t end) const;
  TileState start_tile(int64_t sequence, int64_t begin) const;
  template <class T_>
  void run_tile(const Group& g, int64_t head, int64_t begin, Workspace work) const;
  template <class T_>
  void write_tile(const Group& g, int64_t head, const TileState& tile, Workspace work) const;
};

template <class T_>
void Forward::pack(const Group& g, int64_t panel, int64_t end) const {
  for (int64_t p = panel; p < end; ++p) {
    const int64_t key = p * kPanelRows, keys = std::min(kPanelRows, T - key), row = g.sequence * T + key;
    pack_rows(args.k.row<T_>(row) + g.kv_head * D, args.k.stride, keys, D, k_of(g) + key * D, keys);
    pack_columns(args.v.row<T_>(row) + g.kv_head * D, args.v.stride, D, keys, v_of(g) + key * D, D);
  }
}

TileState Forward::start_tile(int64_t sequence, int64_t begin) const {
  TileState tile;
  tile.begin = begin;
  tile.queries = std::min(kPanelColumns, T - begin);
  const auto first_key = [&](int64_t i) { return args.shape.first(sequence * T + begin + i); };
  tile.least_first = tile.most_first = first_key(0);
  for (int64_t i = 0; i < kPanelColumns; ++i) {
    const int64_t first = first_key(std::min(i, tile.queries - 1));  // lanes without a query repeat the last
    tile.least_first = std::min(tile.least_first, first);
    tile.most_first = std::max(tile.most_first, first);
    tile.first[i] = float(first);
    tile.self[i] = float(begin + std::min(i, tile.queries - 1));
    tile.top[i] = kHidden;
    tile.total[i] = 0;
  }
  return tile;
}

/// Scores to cap * tanh(score / cap).
void cap_scores(float* scores, int64_t count, float cap) {
  const V up = splat(cap), down = splat(1 / cap);
  for (int64_t i = 0; i < count; i += kLanes)
    store(scores + i, hn::Mul(up, tanh(hn::Mul(down, load(scores + i, Whole())))), Whole());
}

/// Raises the maxima to the scores of keys [key, end), of which `masked` hides what the queries do not see.
void raise(TileState& tile, float* scores, int64_t key, int64_t end, bool masked) {
  V top[2] = {load(tile.top, Whole()), load(tile.top + kLanes, Whole())};
  for (int64_t j = key; j < end; ++j, scores += kPanelColumns)
    for (int half = 0; half < 2; ++half) {
      float* s = scores + half * kLanes;
      V score = load(s, Whole());
      if (masked) {
        const V first = load(tile.first + half * kLanes, Whole()), self = load(tile.self + half * kLanes, Whole());
        const V at = splat(float(j));
        score = hn::IfThenElse(hn::And(hn::Ge(at, first), hn::Le(at, self)), score, splat(kHidden));
        store(s, score, Whole());
      }
      top[half] = hn::Max(top[half], score);
    }
  store(tile.top, top[0], Whole());
  store(tile.top + kLanes, top[1], Whole());
}

/// The same for a block, most of which every query sees.
void mask_and_raise(TileState& tile, float* scores, int64_t key, int64_t end) {
  const int64_t all_see = std::clamp(tile.most_first, key, end), last_seen = std::clamp(tile.begin + 1, all_see, end);
  const auto at = [&](int64_t j) { return scores + (j - key) * kPanelColumns; };
  raise(tile, at(key), key, all_see, true);
  raise(tile, at(all_see), all_see, last_seen, false);
  raise(tile, at(last_seen), last_seen, end, true);
}

/// Scores to exp(score - top), and their totals.
void exponentiate(TileState& tile, float* scores, int64_t keys) {
  const V top0 = load(tile.top, Whole()), top1 = load(tile.top + kLanes, Whole());
  V total0 = load(tile.total, Whole()), total1 = load(tile.total + kLanes, Whole());
  for (float* s = scores; s < scores + keys * kPanelColumns; s += kPanelColumns) {
    const V p0 = exp(hn::Sub(load(s, Whole()), top0)), p1 = exp(hn::Sub(load(s + kLanes, Whole()), top1));
    store(s, p0, Whole());
    store(s + kLanes, p1, Whole());
    total0 = hn::Add(total0, p0);
    total1 = hn::Add(total1, p1);
  }
  store(tile.total, total0, Whole());
  store(tile.total + kLanes, total1, Whole());
}

/// From the old maxima to the new: totals and sums shrink by exp(old - new).
void rescale(TileState& tile, const float* old_top, float* sums, int64_t d) {
  for (int64_t half = 0; half < kPanelColumns; half += kLanes) {
    const V factor = exp(hn::Sub(load(old_top + half, Whole()), load(tile.top + half, Whole())));
    store(tile.total + half, hn::Mul(load(tile.total + half, Whole()), factor), Whole());
    for (int64_t i = 0; i < d; ++i) {
      float* sum = sums + i * kPanelColumns + half;
      store(sum, hn::Mul(load(sum, Whole()), factor), Whole());
    }
  }
}

template <class T_>
void Forward::run_tile(const Group& g, int64_t head, int64_t begin, Workspace work) const {
  TileState tile = start_tile(g.sequence, begin);
  const T_* q = args.q.row<T_>(g.sequence * T + begin) + head * D;
  pack_rows(q, args.q.stride, tile.queries, D, work.queries, kPanelColumns);
  for (int64_t i = 0; i < D * kPanelColumns; i += kLanes)
    store(work.queries + i, hn::Mul(load(work.queries + i, Whole()), splat(args.shape.scale)), Whole());

  const int64_t end = begin + tile.queries;
  bool started = false;
  for (int64_t key = tile.least_first / kPanelRows * kPanelRows; key < end; key += kBlockKeys, started = true) {
    const int64_t block_end = std::min(key + kBlockKeys, end);
    for (int64_t j = key; j < block_end; j += kPanelRows) {
      const int64_t rows = std::min(kPanelRows, T - j);
      multiply_panels(rows, {k_of(g) + j * D, rows, work.queries, D},
                      {.c = work.scores + (j - key) * kPanelColumns, .stride = kPanelColumns});
    }
    if (args.shape.softcap > 0) cap_scores(work.scores, (block_end - key) * kPanelColumns, args.shape.softcap);
    alignas(64) float old_top[kPanelColumns];
    std::copy_n(tile.top, kPanelColumns, old_top);
    mask_and_raise(tile, work.scores, key, block_end);
    if (started) rescale(tile, old_top, work.sums, D);
    exponentiate(tile, work.scores, block_end - key);
    const RowPanels columns{D};
    for (int64_t p = 0; p < columns.count; ++p)
      multiply_panels(columns.height(p), {v_of(g) + key * D + columns.begin(p), D, work.scores, block_end - key},
                      {.c = work.sums + columns.begin(p) * kPanelColumns, .stride = kPanelColumns,
                       .accumulate = started});
  }
  write_tile<T_>(g, head, tile, work);
}

template <class T_>
void Forward::write_tile(const Group& g, int64_t head, const TileState& tile, Workspace work) const {
  const int64_t row = g.sequence * T + tile.begin;
  transpose(work.sums, kPanelColumns, D, tile.queries, work.out, D);
  for (int64_t i = 0; i < tile.queries; ++i) {
    const float share = 1 / tile.total[i];
    const float* from = work.out + i * D;
    T_* to = args.out.row<T_>(row + i) + head * D;
    for_vectors(D, [&](int64_t d, auto lanes) HWY_ATTR {
      store(to + d, hn::Mul(load(from + d, lanes), splat(share)), lanes);
    });
    args.lse.row<float>(head)[row + i] = tile.top[i] + std::log(tile.total[i]);
  }
}

/// A task a group: it packs for itself.
template <class T_>
void run_groups(Context& ctx, const Forward& forward) {
  const int64_t work_size = aligned(Workspace::size(forward.D)), group_size = forward.group_size();
  float* packs = scratch(ctx).get<float>(Slot::kAttention, ctx.pool.size() * (group_size + work_size));
  float* workspaces = packs + ctx.pool.size() * group_size;
  ctx.pool.parallel_for(forward.groups(), [&](int64_t task, int worker) {
    const Group group = forward.group(task, packs + worker * group_size);
    const Workspace work(workspaces + worker * work_size, forward.D);
    forward.pack<T_>(group, 0, forward.key_panels());
    for (int64_t head = group.kv_head * forward.heads; head < (group.kv_head + 1) * forward.heads; ++head)
      for (int64_t begin = 0; begin < forward.T; begin += kPanelColumns)
        forward.run_tile<T_>(group, head, begin, work);
  });
}

/// A task a tile of queries; what is packed is shared.
template <class T_>
void run_tiles(Context& ctx, const Forward& forward) {
  const int64_t work_size = aligned(Workspace::size(forward.D)), group_size = forward.group_size();
  const int64_t groups = forward.groups(), panels = forward.key_panels();
  float* packs = scratch(ctx).get<float>(Slot::kAttention, groups * group_size + ctx.pool.size() * work_size);
  float* workspaces = packs + groups * group_size;
  const auto group = [&](int64_t index) { return forward.group(index, packs + index * group_size); };

  constexpr int64_t kPanelsATask = 8;
  const int64_t parts = (panels + kPanelsATask - 1) / kPanelsATask;
  ctx.pool.parallel_for(groups * parts, [&](int64_t task, int) {
    const int64_t panel = task % parts * kPanelsATask;
    forward.pack<T_>(group(task / parts), panel, std::min(panel + kPanelsATask, panels));
  });
  // The last tiles see the most keys: they go first, so that the threads finish together.
  const int64_t tiles = forward.tiles(), heads = groups * forward.heads;
  ctx.pool.parallel_for(heads * tiles, [&](int64_t task, int worker) {
    const Group g = group(task % heads / forward.heads);
    const int64_t head = g.kv_head * forward.heads + task % forward.heads, tile = tiles - 1 - task / heads;
    forward.run_tile<T_>(g, head, tile * kPanelColumns, {workspaces + worker * work_size, forward.D});
  });
}

template <class T_>
void run(Context& ctx, const AttentionForwardArgs& args) {
  const Forward forward(args);
  if (forward.groups() >= kGroupsWanted)
    run_groups<T_>(ctx, forward);
  else
    run_tiles<T_>(ctx, forward);
}

void run_any(Context& ctx, const AttentionForwardArgs& args) {
  visit_float(args.q.dtype, [&](auto t) { run<decltype(t)>(ctx, args); });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace espalier
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace espalier::cpu {

void attention_forward(Context& ctx, const AttentionForwardArgs& args) {
  const AttentionShape& s = args.shape;
  ESP_CHECK(s.kv_heads > 0 && s.heads % s.kv_heads == 0, "{} heads share {} key heads", s.heads, s.kv_heads);
  ESP_CHECK(args.q.dtype == args.k.dtype && args.q.dtype == args.v.dtype && args.q.dtype == args.out.dtype,
            "q {}, k {}, v {}, out {}", dtype_name(args.q.dtype), dtype_name(args.k.dtype),
            dtype_name(args.v.dtype), dtype_name(args.out.dtype));
  ESP_SIMD(ctx, run_any)(ctx, args);
}

}  // namespace espalier::cpu
#endif  // HWY_ONCE
