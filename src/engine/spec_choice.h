// What `--spec auto` does at the start: passes of both models are timed, together on all cores and side by side on
// cores of their own; the simulator (engine/spec_simulation.h) plays every schedule with these costs and an acceptance
// that is usual for a draft, and the best is taken. Plain decoding is one of them. Whether the draft is any good at the
// text at hand is found out as texts are written (engine/speculation.h).
#pragma once
#include <span>
#include <string>
#include <vector>

#include "engine/spec_simulation.h"
#include "models/decoder.h"

namespace espalier {

/// Seconds of a pass over one token, and what each further one adds.
struct SpecCosts {
  double target_s = 0, target_node_s = 0, draft_s = 0, draft_node_s = 0;
};

struct SpecChoice {
  bool speculates = false, async = false;
  int64_t draft_threads = 0;  ///< cores of an async draft
  int64_t guesses = 0, width = 1, children = 1;
  double gain = 1;            ///< over plain decoding on all cores, as forecast
  /// "serial, chain of 5, 1.9 x plain decoding", ...
  std::string text() const;
};

/// One model after the other, on the same cores.
SpecCosts measure_serial(Context& ctx, Decoder& model, Decoder& draft);
/// Both at once, each on its own cores: what memory and caches that they share cost is in it.
SpecCosts measure_beside(Context& ctx, Decoder& model, Context& draft_ctx, Decoder& draft);

struct SpecSplit {
  int64_t draft_threads = 0;
  SpecCosts costs;
};
/// The schedule that the simulator finds the fastest with at most so many guesses. Plain where none gains 3 %, which
/// is what a forecast can be off by.
SpecChoice choose_speculation(const SpecCosts& serial, std::span<const SpecSplit> splits, int64_t most_guesses);

/// Kinds of places as a 0.5B draft of a 1.5B model of code met them on prompts of code and prose (`espalier bench
/// spec`, Qwen2.5-Coder).
const std::vector<SpecPlace>& usual_places();

}  // namespace espalier
