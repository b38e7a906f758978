#include "train/train_step.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace espalier {

TrainStep::TrainStep(Context& ctx, Decoder& model, Optimizer& optimizer, Guard& guard, const TrainStepOptions& options)
    : ctx_(ctx),
      model_(model),
      optimizer_(optimizer),
      guard_(guard),
      options_(options),
      tape_(ctx, pool_, model.dtype(), TapeMode::kTrain) {}

TrainStep::~TrainStep() = default;

StepResult TrainStep::run(const TrainingBatch& batch, int64_t step, double rate_factor,
                          FunctionRef<void(size_t)> before_update) {
  const std::optional<double> loss = forward_backward(batch, step);
  if (!loss) return {.finished = false};
  return judge_and_update(*loss, rate_factor, before_update);
}

StepResult TrainStep::run(const TrainingBatch& batch, int64_t step, double rate_factor) {
  return run(batch, step, rate_factor, [](size_t) {});
}

std::optional<double> TrainStep::forward_backward(const TrainingBatch& batch, int64_t step) {
  const BatchShape& shape = batch.shape();
  const double scale = 1 / targets_of_all_ranks(batch);
  const Mesh& mesh = options_.mesh;
  losses_.resize(size_t(shape.rows()));
  model_.zero_grads(ctx_);
  double sum = 0;
  for (int64_t i = 0; i < shape.micro_batches; ++i) {
    if (i > 0 && options_.interrupted && options_.interrupted()) return std::nullopt;
    const ForwardOptions forward{
        .dropout = float(options_.dropout),
        .seed = options_.seed,
        .stream = uint64_t((step * shape.micro_batches + i) * mesh.data->size() + mesh.data->rank()),
        .recompute = options_.recompute};
    const Batch micro = batch.micro_batch(i);
    model_.loss(tape_, micro, batch.targets(i), float(scale), losses_.data(), forward);
    tape_.backward();
    sum = std::accumulate(losses_.begin(), losses_.end(), sum);
  }
  return mesh.data->all_reduce(sum, ReduceOp::kSum) * scale;
}

double TrainStep::targets_of_all_ranks(const TrainingBatch& batch) const {
  const double targets = options_.mesh.data->all_reduce(double(batch.target_count()), ReduceOp::kSum);
  return std::max(targets, 1.0);
}

StepResult TrainStep::judge_and_update(double loss, double rate_factor, FunctionRef<void(size_t)> before_update) {
  StepResult result{.loss = loss, .grad_norm = optimizer_.reduce_gradients(ctx_, options_.mesh)};
  result.verdict = guard_.judge(loss, result.grad_norm);
  if (result.verdict != Verdict::kGood) return result;
  // PyTorch's clip_grad_norm_, its 1e-6 included.
  const bool clipped = options_.clip > 0 && result.grad_norm > options_.clip;
  optimizer_.update(ctx_, rate_factor, clipped ? options_.clip / (result.grad_norm + 1e-6) : 1, before_update);
  return result;
}

std::string TrainStep::first_bad_tensor() {
  for (size_t i = 0; i < model_.params().size(); ++i) {
    const Param& p = model_.params()[i];
    if (!std::isfinite(kernels(ctx_).sum_squares(ctx_, p.master.as<float>(), p.size())))
      return fmt::format("the weight {} is not finite", p.name);
  }
  for (size_t i = 0; i < model_.params().size(); ++i)
    if (!std::isfinite(optimizer_.squares()[i]))
      return fmt::format("the first gradient that is not finite is that of {}", model_.params()[i].name);
  return "every gradient is finite";
}

}  // namespace espalier
