// A draft model that runs beside the model it guesses for, on cores of its own: while one pass verifies, the tree grows
// on below the guesses that were sent (SwiftSpec, arXiv 2506.11309, section 3: asynchronous and disaggregated). Two
// messages a round pass between them: the text that was drawn, and the heaviest nodes below it.
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

  /// Waits until the draft has taken note of the text and guessed at least something; it then grows on by itself. What
  /// the draft threw is thrown here.
  Draft propose(std::span<const int32_t> text, int64_t most, const PassCosts& costs) override;
  DrafterCounters counters() const override;

 private:
  struct Order {
    std::vector<int32_t> text;
    int64_t most = 0;
  };
  void run();
  void serve(const Order& order);

  ModelDrafter drafter_;  // the thread's alone
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Order> order_;
  std::optional<Draft> reply_;
  std::exception_ptr failure_;
  DrafterCounters counters_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace espalier
