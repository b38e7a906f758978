// Whether a pass of the draft is worth its time: it is where it brings more tokens a second than the round does without
// it. One rule for the engine and for the simulator (engine/spec_simulation.h).
#pragma once
#include "engine/drafter.h"
#include "engine/token_tree.h"

namespace espalier {

struct DraftRound {
  int64_t width = 1;   ///< nodes that one draft pass expands
  int64_t most = 1;    ///< guesses that will be verified
  double pass_s = 0;   ///< of a draft pass; 0: not known yet
  int64_t passes = 0;  ///< that this round has had
};

/// What a pass can add is the weight of the nodes that it expands: some child of each is right where the node is. True
/// as long as the root has no guesses or costs are not known.
bool worth_a_pass(const TokenTree& tree, const DraftRound& round, const PassCosts& costs);

}  // namespace espalier
