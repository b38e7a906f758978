// One step of training: micro-batches forward and backward, the guard, the clip, the update. Nothing of files, logs or
// schedules: the loop (train/trainer.h) and the benchmarks share it. After two steps it allocates nothing.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "comm/mesh.h"
#include "train/guard.h"
#include "train/optimizer.h"
#include "train/training_batch.h"

namespace espalier {

struct TrainStepOptions {
  Mesh mesh;
  double dropout = 0;
  uint64_t seed = 0;  ///< of dropout
  bool recompute = false;
  double clip = 0;                    ///< longest gradient; 0: any
  std::function<bool()> interrupted;  ///< asked between micro-batches, of which a step may have many; may be empty
};

struct StepResult {
  bool finished = true;  ///< false: interrupted between two micro-batches; nothing was judged and nothing changed
  double loss = 0;       ///< mean over the step's targets
  double grad_norm = 0;  ///< before the clip
  Verdict verdict = Verdict::kGood;
};

class TrainStep {
 public:
  TrainStep(Context& ctx, Decoder& model, Optimizer& optimizer, Guard& guard, const TrainStepOptions& options);
  ~TrainStep();

  /// Loss and gradients of the batch, then the update at `rate_factor` unless the guard refuses: a refused step leaves
  /// weights and moments as they are. `step` keys dropout. `before_update(i)`: see Optimizer::update.
  StepResult run(const TrainingBatch& batch, int64_t step, double rate_factor, FunctionRef<void(size_t)> before_update);
  StepResult run(const TrainingBatch& batch, int64_t step, double rate_factor);

  /// The two halves of run(); the first gives nothing when interrupted.
  std::optional<double> forward_backward(const TrainingBatch& batch, int64_t step);
  StepResult judge_and_update(double loss, double rate_factor, FunctionRef<void(size_t)> before_update);

  /// Names the first gradient that is not finite, or the first weight, with what it holds; for messages.
  std::string first_bad_tensor();

  const BufferPool& buffers() const { return pool_; }

 private:
  double targets_of_all_ranks(const TrainingBatch& batch) const;

  Context& ctx_;
  Decoder& model_;
  Optimizer& optimizer_;
  Guard& guard_;
  TrainStepOptions options_;
  BufferPool pool_;
  Tape tape_;
  std::vector<float> losses_;
};

}  // namespace espalier
