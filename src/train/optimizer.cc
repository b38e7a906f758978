#include "train/optimizer.h"

#include <algorithm>
#include <cmath>

namespace espalier {
namespace {

uint16_t* copy_bits(Param& p) {
  if (!p.compute_copy) return nullptr;
  ESP_CHECK(p.compute_copy.dtype() == DType::kBF16, "{} copy of {}", dtype_name(p.compute_copy.dtype()), p.name);
  return static_cast<uint16_t*>(p.compute_copy.data());
}

/// The rows of the matrices that a weight holds side by side: queries, keys and values, or gate and up, are projections
/// of their own, and orthogonal each by itself (Jordan et al. 2024).
std::vector<int64_t> fused_rows(const Param& p, const ArchSpec& spec) {
  if (p.name.ends_with("attention.qkv.weight")) return {spec.query_width(), spec.kv_width(), spec.kv_width()};
  if (p.name.ends_with("ffn.up.weight") && spec.gated_ffn) return {spec.ffn, spec.ffn};
  return {p.shape()[0]};
}

}  // namespace

Optimizer::Optimizer(Decoder& model, const OptimConfig& config) : config_(config) {
  int64_t scratch = 0;
  for (Param& p : model.params()) {
    ESP_CHECK(p.trained(), "{} is not trained", p.name);
    const bool decays = p.shape().rank() == 2;
    Slot slot{&p, Rule::kAdam, decays ? config.weight_decay : 0, Tensor(DType::kF32, p.shape()), {}, {}};
    if (config.kind == "lamb") slot.rule = Rule::kLamb;
    if (config.kind == "muon" && p.is_matrix && p.name != "head.weight") {
      slot.rule = Rule::kMuon;
      slot.pieces = fused_rows(p, model.spec());
    }
    if (slot.rule != Rule::kMuon) slot.v = Tensor(DType::kF32, p.shape());
    if (slot.rule != Rule::kAdam) scratch = std::max(scratch, p.size());
    slots_.push_back(std::move(slot));
  }
  squares_.resize(slots_.size());
  if (scratch > 0) scratch_ = Tensor(DType::kF32, {scratch});
}

double Optimizer::reduce_gradients(Context& ctx, const Mesh& mesh) {
  double sum = 0;
  for (size_t i = 0; i < slots_.size(); ++i) {
    Tensor& grad = slots_[i].param->grad;
    if (mesh.data->size() > 1) mesh.data->all_reduce(grad.mat(), ReduceOp::kSum);
    squares_[i] = kernels(ctx).sum_squares(ctx, grad.as<float>(), grad.size());
    sum += squares_[i];
  }
  return std::sqrt(sum);
}

void Optimizer::update(Context& ctx, double rate_factor, double grad_scale, FunctionRef<void(size_t)> before) {
  ++updates_;
  const Step step{rate_factor, grad_scale};
  for (size_t i = 0; i < slots_.size(); ++i) {
    before(i);
    Slot& slot = slots_[i];
    if (slot.rule == Rule::kAdam) update_adam(ctx, slot, step);
    if (slot.rule == Rule::kLamb) update_lamb(ctx, slot, step);
    if (slot.rule == Rule::kMuon) update_muon(ctx, slot, step);
  }
}

AdamHyper Optimizer::hyper_of(const Slot& slot, const Step& step) const {
  return {.lr = config_.lr * step.rate_factor,
          .beta1 = config_.beta1,
          .beta2 = config_.beta2,
          .eps = config_.eps,
          .decay = slot.decay,
          .bias1 = 1 - std::pow(config_.beta1, double(updates_)),
          .bias2 = 1 - std::pow(config_.beta2, double(updates_)),
          .grad_scale = step.grad_scale};
}

void Optimizer::update_adam(Context& ctx, Slot& slot, const Step& step) {
  Param& p = *slot.param;
  kernels(ctx).adamw(ctx, {.w = p.master.as<float>(),
                           .g = p.grad.as<float>(),
                           .m = slot.m.as<float>(),
                           .v = slot.v.as<float>(),
                           .n = p.size(),
                           .hyper = hyper_of(slot, step),
                           .w_bf16 = copy_bits(p)});
}

// w -= lr * |w| / |u| * u,  u = mhat / (sqrt(vhat) + eps) + decay w. What does not decay is not scaled by the ratio
// either, as in the authors' code.
void Optimizer::update_lamb(Context& ctx, Slot& slot, const Step& step) {
  Param& p = *slot.param;
  const LambNorms norms = kernels(ctx).lamb(ctx, {.w = p.master.as<float>(),
                                                  .g = p.grad.as<float>(),
                                                  .m = slot.m.as<float>(),
                                                  .v = slot.v.as<float>(),
                                                  .update = scratch_.as<float>(),
                                                  .n = p.size(),
                                                  .hyper = hyper_of(slot, step)});
  const bool scaled = p.shape().rank() == 2 && norms.w_squared > 0 && norms.update_squared > 0;
  const double trust = scaled ? std::sqrt(norms.w_squared / norms.update_squared) : 1;
  kernels(ctx).axpy(ctx, {.w = p.master.as<float>(),
                          .x = scratch_.as<float>(),
                          .n = p.size(),
                          .alpha = float(-config_.lr * step.rate_factor * trust),
                          .w_bf16 = copy_bits(p)});
}

// m = mu m + g;  w = (1 - lr decay) w - lr scale orthogonal(g + mu m)   (Nesterov's momentum, mu = 0.95)
void Optimizer::update_muon(Context& ctx, Slot& slot, const Step& step) {
  constexpr float kMomentum = 0.95f;
  const Kernels& k = kernels(ctx);
  Param& p = *slot.param;
  const int64_t cols = p.shape()[1];
  float *m = slot.m.as<float>(), *update = scratch_.as<float>();
  const float *g = p.grad.as<float>(), scale = float(step.grad_scale);
  k.axpy(ctx, {.w = m, .x = g, .n = p.size(), .alpha = scale, .shrink = 1 - kMomentum});
  k.copy(ctx, {.src = mat(g, 1, p.size()), .dst = mat(update, 1, p.size()), .scale = scale});
  k.axpy(ctx, {.w = update, .x = m, .n = p.size(), .alpha = kMomentum});
  const double lr = (config_.muon_lr > 0 ? config_.muon_lr : config_.lr) * step.rate_factor;
  int64_t row = 0;
  for (const int64_t rows : slot.pieces) {
    const int64_t at = row * cols;
    orthogonalise(ctx, mat(update + at, rows, cols), muon_);
    uint16_t* copy = copy_bits(p);
    k.axpy(ctx, {.w = p.master.as<float>() + at,
                 .x = update + at,
                 .n = rows * cols,
                 .alpha = float(-lr * muon_scale(rows, cols)),
                 .shrink = float(lr * slot.decay),
                 .w_bf16 = copy ? copy + at : nullptr});
    row += rows;
  }
}

std::vector<StateTensor> Optimizer::state_of(size_t i) {
  Slot& slot = slots_[i];
  std::vector<StateTensor> list = {{"model." + slot.param->name, &slot.param->master},
                                   {"optimizer.m." + slot.param->name, &slot.m}};
  if (slot.v) list.push_back({"optimizer.v." + slot.param->name, &slot.v});
  return list;
}

int64_t Optimizer::bytes() const {
  int64_t bytes = scratch_.bytes() + muon_.bytes();
  for (const Slot& slot : slots_) bytes += slot.m.bytes() + (slot.v ? slot.v.bytes() : 0);
  return bytes;
}

}  // namespace espalier
