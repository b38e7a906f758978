// The loop: batch, step, log, evaluate, sample, save; and what is left behind when it ends.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/context.h"
#include "base/progress.h"
#include "train/data_loader.h"
#include "train/evaluate.h"
#include "train/metrics.h"
#include "train/setup.h"
#include "train/train_step.h"

namespace espalier {

/// The run folder, held alone; the lock goes with the process at the latest.
class FolderLock {
 public:
  /// Makes the folder. Throws Error kUsage where another process holds it, kIo.
  explicit FolderLock(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;

 private:
  int fd_ = -1;
};

/// What the loop cannot do itself: show progress, hear Ctrl-C, and generate text (the engine stands beside train).
struct TrainHooks {
  Progress* progress = &silent_progress();
  std::function<bool()> interrupted;
  /// Continues run.sample_prompt by run.sample_tokens tokens; the same text for the same weights.
  std::function<std::string(Decoder& model)> sample;
};

struct TrainOutcome {
  int64_t steps = 0;
  double loss = 0;                 ///< of the last step
  std::optional<double> val_loss;  ///< the last one
  std::optional<Best> best;
  bool interrupted = false;  ///< by Ctrl-C or SIGTERM; a checkpoint was saved
  std::string model_folder, report;
};

class Trainer {
 public:
  /// Builds the model and takes up the checkpoint of the setup, if any. Throws kNoSpace where it does not fit, kUsage
  /// where another process trains in the run folder.
  Trainer(Context& ctx, const Mesh& mesh, TrainSetup setup, TrainHooks hooks);
  ~Trainer();

  /// Trains to the end of the recipe. Throws kBadData where too many steps in a row were refused by the guard.
  TrainOutcome run();

  Decoder& model() { return *model_; }
  Optimizer& optimizer() { return *optimizer_; }
  const TrainState& state() const { return state_; }
  int64_t buffer_bytes() const { return step_->buffers().bytes_allocated(); }

 private:
  /// Sums since the last log line.
  struct Interval {
    int64_t steps = 0;
    double seconds = 0, loader_stall_ms = 0;
  };

  void build();
  void begin();
  bool done() const;
  double share_done_now() const;
  bool train_one_step();
  void refuse(const StepResult& result);
  void report_save_stall();
  void log();
  void show_progress();
  void evaluate();
  void sample();
  void save(bool now);
  TrainOutcome finish();

  bool every(int64_t steps) const { return steps > 0 && state_.step % steps == 0; }
  double trained_s() const { return trained_before_s_ + watch_.seconds(); }
  double tokens_per_s() const;
  double mfu() const;

  Context& ctx_;
  Mesh mesh_;
  TrainSetup setup_;
  TrainConfig& config_;
  TrainHooks hooks_;
  TrainState& state_;
  FolderLock lock_;

  std::unique_ptr<Decoder> model_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Guard> guard_;
  std::unique_ptr<TrainStep> step_;
  std::unique_ptr<DataLoader> loader_;
  std::unique_ptr<Evaluator> evaluator_;
  std::unique_ptr<CheckpointSaver> saver_;
  std::unique_ptr<Metrics> metrics_;

  Stopwatch watch_;
  double trained_before_s_ = 0, flops_per_token_ = 0, shown_s_ = 0;
  StepResult last_;
  double last_rate_ = 0;
  Interval interval_;
  std::optional<double> val_loss_;
  int64_t saving_step_ = -1, saved_step_ = -1;
};

}  // namespace espalier
