// What speculation would bring on another machine: rounds of guessing and verifying, played with measured costs and a
// measured draft, instead of models. The tree, the rule that says whether a pass is worth its time, and what is done
// after a miss are the engine's own (engine/token_tree.h, engine/draft_worth.h, engine/async_drafter.h); the text is a
// random one of places at which the draft is sure and others at which it is not, each as often as was measured.
#pragma once
#include <cstdint>
#include <vector>

namespace espalier {

/// A kind of place in a text.
struct SpecPlace {
  double share = 1;           ///< of all places; shares are relative to each other
  std::vector<double> ranks;  ///< how often the draft's first guess is right there, its second, ...; at most 1 together
};

struct SpecPlan {
  // The model: seconds of a pass over one token, and what each guess adds to it.
  double target_s = 0, target_node_s = 0;
  // The draft: seconds of a pass that continues one guess, and what each further one adds.
  double draft_s = 0, draft_node_s = 0;
  double round_s = 0;             ///< of each round: messages, sampling
  std::vector<SpecPlace> places;
  bool async = false;             ///< the draft has resources of its own and goes on while a pass verifies
  int64_t guesses = 7, width = 1, children = 1;
  int64_t steps = 4;              ///< most draft passes before a serial pass
  bool adaptive = false;          ///< fewer of them where they are not worth their time
};

struct SpecForecast {
  double tokens_per_s = 0, plain_tokens_per_s = 0;
  double tokens_a_pass = 0;
  double target_idle = 0, draft_idle = 0;  ///< shares of the time
  double hits = 0;                         ///< share of the verdicts that lay in the tree
};

/// Plays `rounds` rounds from a seed: the same plan gives the same forecast. Throws Error kUsage naming the field that
/// makes no sense.
SpecForecast simulate_speculation(const SpecPlan& plan, int64_t rounds = 4000, uint64_t seed = 1);

}  // namespace espalier
