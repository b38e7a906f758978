// A draft model that runs beside the model it guesses for, on cores of its own: while one pass verifies, the tree grows
// on below the guesses that were sent (SwiftSpec, arXiv 2506.11309, section 3: asynchronous and disaggregated). Two
// messages a round pass between them: the text that was drawn, and the heaviest nodes below it.
//
// A verdict inside the tree is answered from the tree at once, though the draft be amid a pass. Outside it the caller
// waits for a first guess only where that is worth its time (the same rule as engine/draft_worth.h); where it is not,
// the model goes on without guesses while the draft catches up, so that it stands idle as little as can be.
#pragma once
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "engine/model_drafter.h"

namespace espalier {

class AsyncDrafter : public Drafter {
 public:
  /// `ctx` is the draft's alone (its pool, its memory); model and ctx are borrowed. The calling thread of that pool is
  /// started here.
  AsyncDrafter(Context& ctx, Decoder& model, int64_t vocab, const ModelDrafterOptions& options = {});
  ~AsyncDrafter() override;

  /// What the draft threw is thrown here.
  Draft propose(std::span<const int32_t> text, int64_t most, const PassCosts& costs) override;
  DrafterCounters counters() const override;

 private:
  void run();
  std::optional<ModelDrafter::Pass> next_pass();
  Draft known(std::span<const int32_t> text, int64_t most) const;
  bool worth_waiting(std::span<const int32_t> text, const PassCosts& costs) const;

  mutable std::mutex mutex_;  // of all below but the drafter's passes
  std::condition_variable changed_;
  ModelDrafter drafter_;
  std::optional<std::vector<int32_t>> order_;  // a text that the draft has not taken note of
  double pass_began_ = -1;  // of the pass that runs; below 0: none does
  bool full_ = true;        // nothing to grow
  std::exception_ptr failure_;
  double waited_s_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace espalier
