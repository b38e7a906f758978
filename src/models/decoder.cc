#include "models/decoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/activation.h"
#include "ops/attention.h"
#include "ops/collective.h"
#include "ops/dropout.h"
#include "ops/embedding.h"
#include "ops/head_loss.h"
#include "ops/linear.h"
#include "ops/norm.h"
#include "ops/qk_norm.h"
#include "ops/rescale.h"
#include "ops/rope.h"

namespace espalier {

struct Decoder::Run {
  Tape& tape;
  // Copies: with recomputation the backward pass reads them when the caller's are gone.
  Batch batch;
  ForwardOptions options;
  ConstMat rope, local_rope;

  /// Dropout's stream: no two sites of a model and no two micro-batches of a run share one.
  Rng rng(int64_t site, int64_t sites) const {
    return Rng(options.seed, Purpose::kDropout, options.stream * uint64_t(sites) + uint64_t(site));
  }
};

Decoder::Decoder(const ArchSpec& spec, const Mesh& mesh, DType dtype, bool train)
    : Decoder(spec, mesh, dtype, train, QuantisedWeights{}) {}

Decoder::Decoder(const ArchSpec& spec, const Mesh& mesh, DType dtype, QuantisedWeights quantised)
    : Decoder(spec, mesh, dtype, false, quantised) {}

Decoder::Decoder(const ArchSpec& spec, const Mesh& mesh, DType dtype, bool train, const QuantisedWeights& quantised)
    : spec_(spec),
      mesh_(mesh),
      dtype_(dtype),
      layers_(size_t(spec.layers)),
      rope_(global_rope(spec)),
      local_rope_(local_rope(spec)) {
  validate(spec, spec.family);
  ESP_CHECK(mesh.tensor->size() == 1, "a tensor group of {} is not laid out yet", mesh.tensor->size());
  for (const WeightInfo& info : weight_list(spec)) add_param(info, train, quantised);
  embedding_ = find("embedding.weight");
  positions_ = find("positions.weight");
  final_norm_ = weights_of("final_norm");
  head_ = spec.tied_head ? embedding_ : find("head.weight");
  for (int64_t i = 0; i < spec.layers; ++i) {
    const auto at = [&](const char* name) { return weights_of(fmt::format("layers.{}.{}", i, name)); };
    layers_[size_t(i)] = {.attention_norm = at("attention_norm"),
                          .qkv = at("attention.qkv"),
                          .q_norm = at("attention.q_norm"),
                          .k_norm = at("attention.k_norm"),
                          .out = at("attention.out"),
                          .attention_post_norm = at("attention_post_norm"),
                          .ffn_norm = at("ffn_norm"),
                          .up = at("ffn.up"),
                          .down = at("ffn.down"),
                          .ffn_post_norm = at("ffn_post_norm")};
  }
}

void Decoder::add_param(const WeightInfo& info, bool train, const QuantisedWeights& quantised) {
  Param& p = params_.emplace_back();
  p.name = info.name;
  p.is_embedding = info.name == "embedding.weight" || info.name == "positions.weight";
  const bool multiplied = info.rows > 0 && (!p.is_embedding || (info.name == "embedding.weight" && spec_.tied_head));
  p.is_matrix = info.rows > 0 && !p.is_embedding;
  p.split = info.name.ends_with("qkv.weight") || info.name.ends_with("up.weight") || info.name.ends_with("qkv.bias") ||
                    info.name.ends_with("up.bias") || info.name == "embedding.weight" || info.name == "head.weight"
                ? Split::kRows
            : info.name.ends_with("out.weight") || info.name.ends_with("down.weight") ? Split::kColumns
                                                                                       : Split::kNone;
  if (const auto found = quantised.find(info.name); found != quantised.end()) {
    p.quantised = found->second;
    return;
  }
  const Shape shape = info.rows > 0 ? Shape{info.rows, info.cols} : Shape{info.cols};
  // The table is large: a model that is only run holds it in the compute dtype even where nothing multiplies by it.
  const bool table = info.name == "embedding.weight" && !train;
  const bool copied = (multiplied || table) && dtype_ != DType::kF32;
  if (train || !copied) p.master = Tensor(DType::kF32, shape);
  if (copied) p.compute_copy = Tensor(dtype_, shape);
  if (train) p.grad = Tensor(DType::kF32, shape);
}

Param* Decoder::find(std::string_view name) {
  for (Param& p : params_)
    if (p.name == name) return &p;
  return nullptr;
}

void Decoder::refresh_copies(Context& ctx) {
  for (Param& p : params_)
    if (p.master && p.compute_copy)
      kernels(ctx).copy(ctx, {.src = std::as_const(p.master).mat(), .dst = p.compute_copy.mat()});
}

void Decoder::zero_grads(Context& ctx) {
  for (Param& p : params_) {
    if (!p.trained()) continue;
    parallel_ranges(ctx.pool, p.grad.size(), int64_t{1} << 18, [&](int64_t begin, int64_t end) {
      std::memset(p.grad.as<float>() + begin, 0, size_t(end - begin) * sizeof(float));
    });
  }
}

Var Decoder::hidden(Tape& tape, const Batch& batch, const ForwardOptions& options) {
  const int64_t last = *std::max_element(batch.positions, batch.positions + batch.count());
  Run run{tape, batch, options, {}, {}};
  if (spec_.rotary()) run.rope = rope_.up_to(last + 1);
  if (spec_.local_rope_theta > 0) run.local_rope = local_rope_.up_to(last + 1);
  Var x = embed(run);
  for (int64_t i = 0; i < spec_.layers; ++i) {
    if (options.recompute)
      x = tape.recompute(x, [this, run, i](const Var& in) { return layer(run, in, i); });
    else
      x = layer(run, x, i);
  }
  return rescale(tape, norm_of(run, x, final_norm_), float(1 / spec_.logit_divisor), tape.dtype());
}

void Decoder::loss(Tape& tape, const Batch& batch, const int32_t* targets, float scale, float* losses,
                   const ForwardOptions& options) {
  head_loss(tape, hidden(tape, batch, options), *head_, {targets, scale, losses}, float(spec_.logit_softcap));
}

void Decoder::logits(Tape& tape, const Var& hidden, Mat out) {
  head_logits(tape, hidden, *head_, out, float(spec_.logit_softcap));
}

Var Decoder::embed(const Run& run) {
  const TokenIds at{run.batch.ids, run.batch.positions, run.batch.count()};
  Var x = embedding(run.tape, *embedding_, positions_, at, float(spec_.embedding_scale));
  return dropout(run.tape, x, run.options.dropout, run.rng(2 * spec_.layers, 2 * spec_.layers + 1));
}

struct Decoder::End {
  const Weights &product, &post_norm;
  int64_t site;  ///< of dropout
};

Var Decoder::layer(const Run& run, const Var& x, int64_t index) {
  const Layer& l = layers_[size_t(index)];
  Var normed = copy_to_group(run.tape, norm_of(run, x, l.attention_norm), *mesh_.tensor);
  Var y = add_to_stream(run, attend(run, normed, index), x, {l.out, l.attention_post_norm, 2 * index});
  if (!spec_.parallel_block || !spec_.shared_norm)
    normed = copy_to_group(run.tape, norm_of(run, spec_.parallel_block ? x : y, l.ffn_norm), *mesh_.tensor);
  return add_to_stream(run, feed_forward(run, normed, l), y, {l.down, l.ffn_post_norm, 2 * index + 1});
}

Var Decoder::attend(const Run& run, const Var& normed, int64_t index) {
  const Layer& l = layers_[size_t(index)];
  const int64_t window = spec_.window_of(index);
  Var qkv = linear(run.tape, normed, *l.qkv.w, l.qkv.b);
  adapt(run, normed, qkv, *l.qkv.w);
  if (spec_.qk_norm != QkNorm::kNone)
    qk_norm(run.tape, qkv, *l.q_norm.w, *l.k_norm.w, {.heads = spec_.heads,
                                                      .kv_heads = spec_.kv_heads,
                                                      .head_size = spec_.head_size,
                                                      .whole = spec_.qk_norm == QkNorm::kWhole,
                                                      .eps = float(spec_.norm_eps),
                                                      .weight_offset = float(spec_.norm_offset)});
  if (spec_.turns(index))
    rope(run.tape, qkv, {.heads = spec_.heads + spec_.kv_heads,
                         .head_size = spec_.head_size,
                         .rotary = spec_.rotary(),
                         .table = window > 0 && spec_.local_rope_theta > 0 ? run.local_rope : run.rope,
                         .positions = run.batch.positions});
  if (!run.batch.segments.empty()) return attend_cached(run, qkv, index);
  return attention(run.tape, qkv, {.sequences = run.batch.sequences,
                                   .rows = run.batch.rows,
                                   .heads = spec_.heads,
                                   .kv_heads = spec_.kv_heads,
                                   .head_size = spec_.head_size,
                                   .scale = spec_.score_scale(),
                                   .first_key = run.batch.first_key,
                                   .window = window,
                                   .softcap = float(spec_.attention_softcap)});
}

Var Decoder::attend_cached(const Run& run, const Var& qkv, int64_t index) {
  Context& ctx = run.tape.ctx();
  const int64_t q = spec_.query_width(), kv = spec_.kv_width();
  Var out = run.tape.make(qkv.rows(), q);
  for (const CacheSegment& s : run.batch.segments) {
    const Mat rows = sub_rows(qkv.value(), s.begin, s.count);
    const Mat keys = s.cache->keys(index), values = s.cache->values(index);
    const int64_t length = s.cache->length();
    ESP_CHECK(length + s.count <= keys.rows, "cache of {} rows, {} needed", keys.rows, length + s.count);
    const bool q8 = s.cache->type() == CacheType::kQ8;
    const auto append = [&](const ConstMat& from, const Mat& to) {
      if (q8)
        run.tape.kernels().store_q8(ctx, {.src = from, .dst = to});
      else
        run.tape.kernels().copy(ctx, {.src = from, .dst = to});
    };
    append(sub_cols(rows, q, kv), sub_rows(keys, length, s.count));
    append(sub_cols(rows, q + kv, kv), sub_rows(values, length, s.count));
    run.tape.kernels().cached_attention(ctx, {.q = sub_cols(rows, 0, q),
                                              .k = keys,
                                              .v = values,
                                              .out = sub_rows(out.value(), s.begin, s.count),
                                              .keys = length + s.count,
                                              .heads = spec_.heads,
                                              .kv_heads = spec_.kv_heads,
                                              .head_size = spec_.head_size,
                                              .window = spec_.window_of(index),
                                              .scale = spec_.score_scale(),
                                              .softcap = float(spec_.attention_softcap),
                                              .paths = s.paths});
  }
  return out;
}

// y += s B (A x) for the rows that have adapters. Each row's numbers depend on that row alone, as in all of serving.
void Decoder::adapt(const Run& run, const Var& x, const Var& y, const Param& w) {
  const Kernels& k = run.tape.kernels();
  Context& ctx = run.tape.ctx();
  for (const LoraRows& rows : run.batch.adapted)
    for (const LoraPart& part : rows.adapter->parts(w.name)) {
      const Var inner = run.tape.make(DType::kF32, rows.count, part.a.shape()[0]);
      const Var change = run.tape.make(DType::kF32, rows.count, part.b.shape()[0]);
      k.row_gemm(ctx, {.x = sub_rows(x.value(), rows.begin, rows.count), .w = part.a.mat(), .y = inner.value()});
      k.row_gemm(ctx, {.x = inner.value(), .w = part.b.mat(), .y = change.value()});
      k.copy(ctx, {.src = change.value(),
                   .dst = sub_cols(sub_rows(y.value(), rows.begin, rows.count), part.row, part.b.shape()[0]),
                   .scale = rows.scale * part.scale,
                   .accumulate = true});
    }
}

Var Decoder::feed_forward(const Run& run, const Var& normed, const Layer& l) {
  Var up = linear(run.tape, normed, *l.up.w, l.up.b);
  adapt(run, normed, up, *l.up.w);
  return activation(run.tape, up, spec_.activation, spec_.gated_ffn);
}

Var Decoder::add_to_stream(const Run& run, const Var& x, const Var& residual, const End& end) {
  const auto [w, b] = end.product;
  const bool drops = run.options.dropout > 0 && run.tape.mode() == TapeMode::kTrain;
  const bool plain = !drops && !spec_.post_norm && spec_.residual_scale == 1;
  if (plain && mesh_.tensor->size() == 1) {
    Var y = linear_residual(run.tape, x, *w, b, residual);
    adapt(run, x, y, *w);
    return y;
  }
  Var y = linear(run.tape, x, *w, b, DType::kF32);
  adapt(run, x, y, *w);
  y = reduce_from_group(run.tape, y, *mesh_.tensor);
  if (spec_.post_norm) y = norm_of(run, y, end.post_norm, true);
  y = dropout(run.tape, y, run.options.dropout, run.rng(end.site, 2 * spec_.layers + 1));
  return add(run.tape, residual, y, float(spec_.residual_scale));
}

// Without a norm, x in the dtype that products take.
Var Decoder::norm_of(const Run& run, const Var& x, const Weights& norm, bool wide) {
  if (!norm.w) return rescale(run.tape, x, 1, run.tape.dtype());
  return espalier::norm(run.tape, x, *norm.w, norm.b, {.rms = spec_.rms_norm,
                                                       .eps = float(spec_.norm_eps),
                                                       .weight_offset = float(spec_.norm_offset),
                                                       .wide = wide});
}

}  // namespace espalier
