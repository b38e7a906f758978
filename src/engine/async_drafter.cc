#include "engine/async_drafter.h"

#include "base/clock.h"

namespace espalier {

AsyncDrafter::AsyncDrafter(Context& ctx, Decoder& model, int64_t vocab, const ModelDrafterOptions& options)
    : drafter_(ctx, model, vocab, options), thread_(start_thread([this] { run(); })) {}

AsyncDrafter::~AsyncDrafter() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Draft AsyncDrafter::propose(std::span<const int32_t> text, int64_t most, const PassCosts&) {
  const Stopwatch watch;
  std::unique_lock lock(mutex_);
  order_ = Order{{text.begin(), text.end()}, most};
  reply_.reset();
  changed_.notify_all();
  changed_.wait(lock, [this] { return reply_ || failure_; });
  counters_.wait_s += watch.seconds();
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  return *std::move(reply_);
}

DrafterCounters AsyncDrafter::counters() const {
  std::lock_guard lock(mutex_);
  return counters_;
}

void AsyncDrafter::serve(const Order& order) {
  drafter_.follow(order.text);
  // What outlived the verdict is sent at once. After a miss nothing did, and one pass gives the first guesses.
  if (drafter_.tree().size() <= 1) drafter_.grow();
  Draft draft = drafter_.heaviest(order.most);
  std::lock_guard lock(mutex_);
  const double waited = counters_.wait_s;
  counters_ = drafter_.counters();
  counters_.wait_s = waited;
  reply_ = std::move(draft);
  changed_.notify_all();
}

void AsyncDrafter::run() {
  bool full = true;  // nothing to grow yet
  while (true) {
    std::optional<Order> order;
    {
      std::unique_lock lock(mutex_);
      if (full) changed_.wait(lock, [this] { return stop_ || order_; });
      if (stop_) return;
      order = std::exchange(order_, std::nullopt);
    }
    try {
      if (order) serve(*order);
      full = !drafter_.grow();
    } catch (...) {  // a thread's edge: carried to the caller
      std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
      full = true;
      changed_.notify_all();
    }
  }
}

}  // namespace espalier
