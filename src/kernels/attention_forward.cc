// Attention, forward. A task takes one head and a tile of kPanelColumns queries, which lie side by side in vectors:
//   S^T = K Q^T   [keys, queries]: panels of keys times the panel of queries
//   P^T = exp(S^T - max over keys), lane by lane: no sum across a vector is ever needed
//   O^T = V^T P^T [D, queries]: P^T is already the panel that this product wants
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

/// Keys of a block: its scores fill a part of the second cache.
constexpr int64_t kBlockKeys = (1024 + kPanelRows - 1) / kPanelRows * kPanelRows;
/// Stands for minus infinity, so that differences of two such are not NaN. What a query sums up before its first
/// visible key is wiped out by exp(kHidden - score) = 0 at that key.
constexpr float kHidden = -1e30f;

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

struct Forward {
  const AttentionForwardArgs& args;
  float *packed_k, *packed_v, *workspaces;

  int64_t head_size() const { return args.shape.head_size; }
  int64_t key_panels() const { return (args.shape.rows + kPanelRows - 1) / kPanelRows; }
  /// K of a sequence and head in panels of kPanelRows keys; V as rows of D numbers.
  float* k_of(int64_t sequence, int64_t kv_head) const {
    return packed_k + (sequence * args.shape.kv_heads + kv_head) * key_panels() * kPanelRows * head_size();
  }
  float* v_of(int64_t sequence, int64_t kv_head) const {
    return packed_v + (sequence * args.shape.kv_heads + kv_head) * args.shape.rows * head_size();
  }

  template <class T>
  void pack(int64_t sequence, int64_t kv_head, int64_t panel, int64_t panels) const;
  TileState start_tile(int64_t sequence, int64_t begin) const;
  template <class T>
  void run_tile(int64_t sequence, int64_t head, int64_t begin, Workspace work) const;
  template <class T>
  void write_tile(const TileState& tile, int64_t sequence, int64_t head, Workspace work) const;
};

template <class T>
void Forward::pack(int64_t sequence, int64_t kv_head, int64_t panel, int64_t panels) const {
  const int64_t D = head_size(), T_ = args.shape.rows;
  for (int64_t p = panel; p < panel + panels; ++p) {
    const int64_t key = p * kPanelRows, keys = std::min(kPanelRows, T_ - key), row = sequence * T_ + key;
    pack_rows(args.k.row<T>(row) + kv_head * D, args.k.stride, keys, D, k_of(sequence, kv_head) + key * D, keys);
    pack_columns(args.v.row<T>(row) + kv_head * D, args.v.stride, D, keys, v_of(sequence, kv_head) + key * D, D);
  }
}

TileState Forward::start_tile(int64_t sequence, int64_t begin) const {
  TileState tile;
  tile.begin = begin;
  tile.queries = std::min(kPanelColumns, args.shape.rows - begin);
  const int32_t* first_key = args.shape.first_key + sequence * args.shape.rows + begin;
  tile.least_first = tile.most_first = first_key[0];
  for (int64_t i = 0; i < kPanelColumns; ++i) {
    const int64_t first = first_key[std::min(i, tile.queries - 1)];  // lanes without a query repeat the last
    tile.least_first = std::min(tile.least_first, first);
    tile.most_first = std::max(tile.most_first, first);
    tile.first[i] = float(first);
    tile.self[i] = float(begin + std::min(i, tile.queries - 1));
    tile.top[i] = kHidden;
    tile.total[i] = 0;
  }
  return tile;
}

/// Hides what the queries do not see in scores of keys [key, end), and raises the maxima.
void mask_and_raise(TileState& tile, float* scores, int64_t key, int64_t end) {
  for (int64_t half = 0; half < kPanelColumns; half += kLanes) {
    const V first = load(tile.first + half, Whole()), self = load(tile.self + half, Whole());
    V top = load(tile.top + half, Whole());
    float* s = scores + half;
    for (int64_t j = key; j < end; ++j, s += kPanelColumns) {
      V score = load(s, Whole());
      if (j < tile.most_first || j > tile.begin) {
        const V at = splat(float(j));
        score = hn::IfThenElse(hn::And(hn::Ge(at, first), hn::Le(at, self)), score, splat(kHidden));
        store(s, score, Whole());
      }
      top = hn::Max(top, score);
    }
    store(tile.top + half, top, Whole());
  }
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

template <class T>
void Forward::run_tile(int64_t sequence, int64_t head, int64_t begin, Workspace work) const {
  const int64_t D = head_size(), kv_head = head / (args.shape.heads / args.shape.kv_heads);
  TileState tile = start_tile(sequence, begin);
  const T* q = args.q.row<T>(sequence * args.shape.rows + begin) + head * D;
  pack_rows(q, args.q.stride, tile.queries, D, work.queries, kPanelColumns);
  for (int64_t i = 0; i < D * kPanelColumns; i += kLanes)
    store(work.queries + i, hn::Mul(load(work.queries + i, Whole()), splat(args.shape.scale)), Whole());

  const float *k = k_of(sequence, kv_head), *v = v_of(sequence, kv_head);
  const int64_t end = begin + tile.queries;
  bool started = false;
  for (int64_t key = tile.least_first / kPanelRows * kPanelRows; key < end; key += kBlockKeys, started = true) {
    const int64_t block_end = std::min(key + kBlockKeys, end);
    for (int64_t j = key; j < block_end; j += kPanelRows) {
      const int64_t rows = std::min(kPanelRows, args.shape.rows - j);
      multiply_panels(rows, {k + j * D, rows, work.queries, D},
                      {.c = work.scores + (j - key) * kPanelColumns, .stride = kPanelColumns});
    }
    alignas(64) float old_top[kPanelColumns];
    std::copy_n(tile.top, kPanelColumns, old_top);
    mask_and_raise(tile, work.scores, key, block_end);
    if (started) rescale(tile, old_top, work.sums, D);
    exponentiate(tile, work.scores, block_end - key);
    const RowPanels columns{D};
    for (int64_t p = 0; p < columns.count; ++p)
      multiply_panels(columns.height(p), {v + key * D + columns.begin(p), D, work.scores, block_end - key},
                      {.c = work.sums + columns.begin(p) * kPanelColumns, .stride = kPanelColumns,
                       .accumulate = started});
  }
  write_tile<T>(tile, sequence, head, work);
}

template <class T>
void Forward::write_tile(const TileState& tile, int64_t sequence, int64_t head, Workspace work) const {
  const int64_t D = head_size(), row = sequence * args.shape.rows + tile.begin;
  transpose(work.sums, kPanelColumns, D, tile.queries, work.out, D);
  for (int64_t i = 0; i < tile.queries; ++i) {
    const float share = 1 / tile.total[i];
    const float* from = work.out + i * D;
    T* to = args.out.row<T>(row + i) + head * D;
    for_vectors(D, [&](int64_t d, auto lanes) HWY_ATTR {
      store(to + d, hn::Mul(load(from + d, lanes), splat(share)), lanes);
    });
    args.lse.row<float>(head)[row + i] = tile.top[i] + std::log(tile.total[i]);
  }
}

template <class T>
void run(Context& ctx, const AttentionForwardArgs& args) {
  const AttentionShape& shape = args.shape;
  const int64_t D = shape.head_size, groups = shape.sequences * shape.kv_heads;
  Forward forward{args, nullptr, nullptr, nullptr};
  const int64_t panels = forward.key_panels();
  const int64_t k_size = groups * panels * kPanelRows * D, v_size = groups * shape.rows * D;
  const auto aligned = [](int64_t n) { return (n + 15) / 16 * 16; };
  const int64_t work_size = aligned(Workspace::size(D));
  forward.packed_k = scratch(ctx).get<float>(Slot::kAttention, aligned(k_size) + aligned(v_size) +
                                                                   work_size * ctx.pool.size());
  forward.packed_v = forward.packed_k + aligned(k_size);
  forward.workspaces = forward.packed_v + aligned(v_size);

  constexpr int64_t kPanelsATask = 8;
  const int64_t parts = (panels + kPanelsATask - 1) / kPanelsATask;
  ctx.pool.parallel_for(groups * parts, [&](int64_t task, int) {
    const int64_t group = task / parts, panel = task % parts * kPanelsATask;
    forward.pack<T>(group / shape.kv_heads, group % shape.kv_heads, panel, std::min(kPanelsATask, panels - panel));
  });
  // The last tiles see the most keys: they go first, so that the threads finish together.
  const int64_t tiles = (shape.rows + kPanelColumns - 1) / kPanelColumns, heads = shape.sequences * shape.heads;
  ctx.pool.parallel_for(heads * tiles, [&](int64_t task, int worker) {
    const int64_t head = task % heads, tile = tiles - 1 - task / heads;
    forward.run_tile<T>(head / shape.heads, head % shape.heads, tile * kPanelColumns,
                        {forward.workspaces + worker * work_size, D});
  });
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
