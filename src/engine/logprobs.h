// Log-probabilities of tokens as OpenAI's API reports them: of the model's own distribution, softmax(logits) at
// temperature 1, before grammar, penalties, filters and temperature. So they do not depend on how a token was chosen.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace espalier {

struct TokenLogprob {
  int32_t id;
  float logprob;  ///< natural; -infinity for a token the model masks
};

struct Logprobs {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;  ///< the likeliest first, the lower id first where two are alike
};

constexpr int64_t kMaxTopLogprobs = 20;

/// Of the token `id` and of the `top` likeliest, 0 to 20 (fewer where the vocabulary has fewer):
///   logprob(i) = logits[i] - best - ln sum_j exp(logits[j] - best).
/// Throws Error kUsage for another `top`, kBadData for logits that are no distribution.
Logprobs logprobs(std::span<const float> logits, int32_t id, int64_t top);

}  // namespace espalier
