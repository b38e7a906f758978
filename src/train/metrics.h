// The run's diary: every value goes to metrics.jsonl, one object a line, and to run.sqlite. A resume that goes back
// behind what was logged removes it from both, so that the curves are those of an uninterrupted run.
//
// Names: loss, val_loss, lr, grad_norm, tokens, tokens_per_s, mfu, step_ms, loader_stall_ms, checkpoint_stall_ms,
// skipped.
#pragma once
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "store/run_store.h"

namespace espalier {

class Metrics {
 public:
  /// Opens or creates both in the run folder and drops what was logged after `after_step`; -1 drops everything.
  Metrics(const std::string& folder, std::string_view config, int64_t after_step);
  /// A run whose status was not told has failed.
  ~Metrics();

  /// A line {"step": 10, "loss": 3.25, ...}, on its way to the disk when this returns. NaN becomes null.
  void log(int64_t step, std::initializer_list<std::pair<std::string_view, double>> values);
  /// What happened: "skip", "spike", "checkpoint", "resume", "best", ... Goes to the store alone.
  void event(int64_t step, std::string_view kind, std::string_view text);
  void sample(int64_t step, std::string_view prompt, std::string_view text);
  /// "finished", "interrupted", "failed".
  void status(std::string_view status);

 private:
  RunStore store_;
  std::string path_;
  int fd_ = -1;
  bool ended_ = false;
};

}  // namespace espalier
