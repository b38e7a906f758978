// Drafting by outcomes (speculative speculative decoding, Saguaro: arXiv 2603.03251): while the model verifies a chain
// of guesses, the draft does not grow the likeliest tree but one continuation for each outcome that the verdict may
// have: how many guesses are right, and which token follows them instead of the next guess. A verdict that was foreseen
// finds its next chain ready.
#pragma once
#include <vector>

#include "engine/token_tree.h"

namespace espalier {

struct OutcomeOptions {
  int64_t chain = 4;  ///< guesses that are verified, and of each continuation
  int64_t fan = 3;    ///< tokens foreseen where no guess is right; half as many behind each guess more, at least one
};

/// The likeliest child of `node`, its likeliest child, ...: at most `most` nodes.
std::vector<int32_t> likeliest_chain(const TokenTree& tree, int32_t node, int64_t most);

/// What a pass of `width` nodes should see next: first the chain from the root, then the tokens that may follow in its
/// place, then the next token of each continuation. Empty where all is seen.
std::vector<int32_t> outcome_frontier(const TokenTree& tree, const OutcomeOptions& options, int64_t width);

}  // namespace espalier
