#include "engine/spec_choice.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "engine/timed_pass.h"

namespace espalier {
namespace {

constexpr int64_t kContext = 32, kRows = 8, kRepeats = 3;
constexpr double kLeastGain = 1.03;
constexpr int64_t kRounds = 600;  // all schedules meet the same text

struct Timed {
  double one = 0, a_node = 0;
};

/// The fastest of a few: what disturbs a pass only ever slows it.
Timed time_passes(Context& ctx, Decoder& model) {
  TimedPass pass(ctx, model, kRows);
  pass.run(kContext, 1);
  double one = 1e30, many = 1e30;
  for (int64_t i = 0; i < kRepeats; ++i) {
    for (auto [rows, least] : {std::pair{int64_t(1), &one}, {kRows, &many}}) {
      pass.truncate(kContext);
      *least = std::min(*least, pass.run(rows, rows));
    }
  }
  return {one, std::max(0.0, (many - one) / double(kRows - 1))};
}

SpecPlan plan_of(const SpecCosts& costs, bool async, int64_t guesses, int64_t width) {
  return {.target_s = costs.target_s,
          .target_node_s = costs.target_node_s,
          .draft_s = costs.draft_s,
          .draft_node_s = costs.draft_node_s,
          .places = usual_places(),
          .async = async,
          .guesses = guesses,
          .width = width,
          .children = width,
          .steps = guesses,
          .adaptive = true};
}

}  // namespace

SpecCosts measure_serial(Context& ctx, Decoder& model, Decoder& draft) {
  const Timed target = time_passes(ctx, model), guess = time_passes(ctx, draft);
  return {target.one, target.a_node, guess.one, guess.a_node};
}

SpecCosts measure_beside(Context& ctx, Decoder& model, Context& draft_ctx, Decoder& draft) {
  // Each is timed while the other one works: the draft goes on until the model is through, and once more around.
  std::atomic<bool> measured{false};
  Timed guess;
  std::exception_ptr failure;
  std::thread beside = start_thread([&] {
    try {
      do guess = time_passes(draft_ctx, draft);
      while (!measured);
    } catch (...) {  // a thread's edge: carried to the caller
      failure = std::current_exception();
    }
  });
  Timed target;
  std::exception_ptr own;
  try {
    target = time_passes(ctx, model);
  } catch (...) {  // the edge: the thread has to be joined first
    own = std::current_exception();
  }
  measured = true;
  beside.join();
  if (own || failure) std::rethrow_exception(own ? own : failure);
  return {target.one, target.a_node, guess.one, guess.a_node};
}

SpecChoice choose_speculation(const SpecCosts& serial, std::span<const SpecSplit> splits, int64_t most_guesses) {
  SpecChoice best;
  const double plain = 1 / serial.target_s;
  const auto consider = [&](const SpecCosts& costs, int64_t draft_threads) {
    for (const int64_t guesses : {2, 3, 4, 5, 7, 10, 15})
      for (const int64_t width : {1, 2, 4}) {
        if (guesses > most_guesses) continue;
        const bool async = draft_threads > 0;
        const double gain = simulate_speculation(plan_of(costs, async, guesses, width), kRounds).tokens_per_s / plain;
        if (gain > std::max(best.gain, kLeastGain))
          best = {true, async, draft_threads, guesses, width, width, gain};
      }
  };
  consider(serial, 0);
  for (const SpecSplit& split : splits) consider(split.costs, split.draft_threads);
  return best;
}

std::string SpecChoice::text() const {
  if (!speculates) return "plain decoding: a draft would not gain";
  return fmt::format("{}, {} of {}, {:.1f} x plain decoding as forecast",
                     async ? fmt::format("async with {} core{} of its own", draft_threads, draft_threads > 1 ? "s" : "")
                           : "serial",
                     width > 1 ? fmt::format("tree {} wide", width) : "chain", guesses, gain);
}

const std::vector<SpecPlace>& usual_places() {
  static const std::vector<SpecPlace> places = {{0.05, {0.1, 0.05, 0.03, 0.02}},   {0.13, {0.28, 0.12, 0.06, 0.04}},
                                                {0.10, {0.42, 0.15, 0.08, 0.05}},  {0.08, {0.57, 0.16, 0.07, 0.04}},
                                                {0.08, {0.72, 0.13, 0.05, 0.02}},  {0.08, {0.85, 0.08, 0.03, 0.01}},
                                                {0.12, {0.93, 0.04, 0.01, 0.005}}, {0.36, {0.99, 0.005, 0.002, 0.001}}};
  return places;
}

}  // namespace espalier
