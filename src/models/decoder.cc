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
#include "ops/rope.h"

namespace espalier {

struct Decoder::Run {
  Tape& tape;
  // Copies: with recomputation the backward pass reads them when the caller's are gone.
  Batch batch;
  ForwardOptions options;
  ConstMat rope;

  /// Dropout's stream: no two sites of a model and no two micro-batches of a run share one.
  Rng rng(int64_t site, int64_t sites) const {
    return Rng(options.seed, Purpose::kDropout, options.stream * uint64_t(sites) + uint64_t(site));
  }
};

Decoder::Decoder(const ArchSpec& spec, const Mesh& mesh, DType dtype, bool train)
    : spec_(spec), mesh_(mesh), dtype_(dtype), layers_(size_t(spec.layers)), rope_(spec) {
  validate(spec, spec.family);
  ESP_CHECK(mesh.tensor->size() == 1, "a tensor group of {} is not laid out yet", mesh.tensor->size());
  for (const WeightInfo& info : weight_list(spec)) add_param(info, train);
  embedding_ = find("embedding.weight");
  positions_ = find("positions.weight");
  final_norm_ = find("final_norm.weight");
  final_norm_b_ = find("final_norm.bias");
  head_ = spec.tied_head ? embedding_ : find("head.weight");
  for (int64_t i = 0; i < spec.layers; ++i) {
    const auto at = [&](const char* name) { return find(fmt::format("layers.{}.{}", i, name)); };
    layers_[size_t(i)] = {at("attention_norm.weight"), at("attention_norm.bias"), at("attention.qkv.weight"),
                          at("attention.qkv.bias"),    at("attention.out.weight"), at("attention.out.bias"),
                          at("ffn_norm.weight"),       at("ffn_norm.bias"),        at("ffn.up.weight"),
                          at("ffn.up.bias"),           at("ffn.down.weight"),      at("ffn.down.bias")};
  }
}

void Decoder::add_param(const WeightInfo& info, bool train) {
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
  const Shape shape = info.rows > 0 ? Shape{info.rows, info.cols} : Shape{info.cols};
  const bool copied = multiplied && dtype_ != DType::kF32;
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
  const Run run{tape, batch, options, spec_.rotary() ? rope_.up_to(last + 1) : ConstMat{}};
  Var x = embed(run);
  for (int64_t i = 0; i < spec_.layers; ++i) {
    if (options.recompute)
      x = tape.recompute(x, [this, run, i](const Var& in) { return layer(run, in, i); });
    else
      x = layer(run, x, i);
  }
  return norm_of(run, x, final_norm_, final_norm_b_);
}

void Decoder::loss(Tape& tape, const Batch& batch, const int32_t* targets, float scale, float* losses,
                   const ForwardOptions& options) {
  head_loss(tape, hidden(tape, batch, options), *head_, targets, scale, losses);
}

void Decoder::logits(Tape& tape, const Var& hidden, Mat out) { head_logits(tape, hidden, *head_, out); }

Var Decoder::embed(const Run& run) {
  const TokenIds at{run.batch.ids, run.batch.positions, run.batch.count()};
  Var x = embedding(run.tape, *embedding_, positions_, at);
  return dropout(run.tape, x, run.options.dropout, run.rng(2 * spec_.layers, 2 * spec_.layers + 1));
}

Var Decoder::layer(const Run& run, const Var& x, int64_t index) {
  const Layer& l = layers_[size_t(index)];
  Var normed = copy_to_group(run.tape, norm_of(run, x, l.attention_norm, l.attention_norm_b), *mesh_.tensor);
  Var mixed = attend(run, normed, index);
  if (spec_.parallel_block) {
    Var y = add_to_stream(run, mixed, l.out, l.out_b, x, 2 * index);
    return add_to_stream(run, feed_forward(run, normed, l), l.down, l.down_b, y, 2 * index + 1);
  }
  Var y = add_to_stream(run, mixed, l.out, l.out_b, x, 2 * index);
  normed = copy_to_group(run.tape, norm_of(run, y, l.ffn_norm, l.ffn_norm_b), *mesh_.tensor);
  return add_to_stream(run, feed_forward(run, normed, l), l.down, l.down_b, y, 2 * index + 1);
}

Var Decoder::attend(const Run& run, const Var& normed, int64_t index) {
  const Layer& l = layers_[size_t(index)];
  Var qkv = linear(run.tape, normed, *l.qkv, l.qkv_b);
  if (spec_.rotary())
    rope(run.tape, qkv, {.heads = spec_.heads + spec_.kv_heads, .head_size = spec_.head_size,
                         .rotary = spec_.rotary(), .table = run.rope, .positions = run.batch.positions});
  if (!run.batch.segments.empty()) return attend_cached(run, qkv, index);
  return attention(run.tape, qkv, {.sequences = run.batch.sequences,
                                   .rows = run.batch.rows,
                                   .heads = spec_.heads,
                                   .kv_heads = spec_.kv_heads,
                                   .head_size = spec_.head_size,
                                   .scale = 1 / std::sqrt(float(spec_.head_size)),
                                   .first_key = run.batch.first_key});
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
    run.tape.kernels().copy(ctx, {.src = sub_cols(rows, q, kv), .dst = sub_rows(keys, length, s.count)});
    run.tape.kernels().copy(ctx, {.src = sub_cols(rows, q + kv, kv), .dst = sub_rows(values, length, s.count)});
    run.tape.kernels().cached_attention(ctx, {.q = sub_cols(rows, 0, q),
                                              .k = keys,
                                              .v = values,
                                              .out = sub_rows(out.value(), s.begin, s.count),
                                              .keys = length + s.count,
                                              .heads = spec_.heads,
                                              .kv_heads = spec_.kv_heads,
                                              .head_size = spec_.head_size,
                                              .window = spec_.window,
                                              .scale = 1 / std::sqrt(float(spec_.head_size))});
  }
  return out;
}

Var Decoder::feed_forward(const Run& run, const Var& normed, const Layer& l) {
  Var up = linear(run.tape, normed, *l.up, l.up_b);
  return activation(run.tape, up, spec_.activation, spec_.gated_ffn);
}

Var Decoder::add_to_stream(const Run& run, const Var& x, Param* w, Param* b, const Var& residual, int64_t site) {
  const bool drops = run.options.dropout > 0 && run.tape.mode() == TapeMode::kTrain;
  if (!drops && mesh_.tensor->size() == 1) return linear_residual(run.tape, x, *w, b, residual);
  Var y = reduce_from_group(run.tape, linear(run.tape, x, *w, b, DType::kF32), *mesh_.tensor);
  y = dropout(run.tape, y, run.options.dropout, run.rng(site, 2 * spec_.layers + 1));
  return add(run.tape, residual, y);
}

Var Decoder::norm_of(const Run& run, const Var& x, Param* w, Param* b) {
  return norm(run.tape, x, *w, b, {.rms = spec_.rms_norm, .eps = float(spec_.norm_eps)});
}

}  // namespace espalier
