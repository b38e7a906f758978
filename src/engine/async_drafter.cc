#include "engine/async_drafter.h"

#include <algorithm>

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

Draft AsyncDrafter::propose(std::span<const int32_t> text, int64_t most, const PassCosts& costs) {
  const Stopwatch watch;
  std::unique_lock lock(mutex_);
  order_.emplace(text.begin(), text.end());
  changed_.notify_all();
  Draft draft = known(text, most);
  if (draft.size() == 0 && worth_waiting(text, costs)) {
    const auto answered = [&] { return failure_ || (!order_ && (full_ || known(text, 1).size() > 0)); };
    changed_.wait(lock, answered);
    draft = known(text, most);
  }
  waited_s_ += watch.seconds();
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  return draft;
}

Draft AsyncDrafter::known(std::span<const int32_t> text, int64_t most) const {
  const std::optional<int32_t> node = drafter_.find(text);
  return node ? drafter_.guesses(most, *node) : Draft{};
}

// A guess comes with the pass that runs, where its node is among those; otherwise with the next. What it brings is one
// token more, as often as a first guess is right.
bool AsyncDrafter::worth_waiting(std::span<const int32_t> text, const PassCosts& costs) const {
  const DrafterCounters counters = drafter_.counters();
  if (costs.tokens_per_s == 0 || drafter_.pass_s() == 0 || counters.judged() == 0) return true;
  const std::optional<int32_t> node = drafter_.find(text);
  const bool runs = pass_began_ >= 0, comes = runs && node && drafter_.tree().at(*node).cell >= 0;
  const double rest = runs ? std::max(0.0, drafter_.pass_s() - (now_s() - pass_began_)) : 0;
  return counters.first_right() > (rest + (comes ? 0 : drafter_.pass_s())) * costs.tokens_per_s;
}

DrafterCounters AsyncDrafter::counters() const {
  std::lock_guard lock(mutex_);
  DrafterCounters counters = drafter_.counters();
  counters.wait_s = waited_s_;
  return counters;
}

// Waits for something to do. Nothing once told to stop.
std::optional<ModelDrafter::Pass> AsyncDrafter::next_pass() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (order_) drafter_.follow(*std::exchange(order_, std::nullopt));
    std::optional<ModelDrafter::Pass> pass = drafter_.begin_pass();
    full_ = !pass;
    if (pass) {
      pass_began_ = now_s();
      return pass;
    }
    changed_.notify_all();
    changed_.wait(lock, [this] { return stop_ || order_; });
  }
  return std::nullopt;
}

void AsyncDrafter::run() {
  while (std::optional<ModelDrafter::Pass> pass = next_pass()) {
    std::exception_ptr failure;
    try {
      drafter_.compute(*pass);
    } catch (...) {  // a thread's edge: carried to the caller
      failure = std::current_exception();
    }
    std::lock_guard lock(mutex_);
    pass_began_ = -1;
    if (failure) {
      drafter_.forget();
      failure_ = failure;
    } else {
      drafter_.end_pass(*pass);
    }
    changed_.notify_all();
  }
}

}  // namespace espalier
