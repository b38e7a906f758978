// Perplexity: how well a model predicts a text; exp of the mean negative log-likelihood of a token.
//
// The convention is llama.cpp's, so that figures can be compared: the text's tokens are cut into chunks of N that do
// not overlap (what is left over is not used), each chunk is read on its own, and the tokens of its second half are
// scored, those that positions N/2 ... N-2 predict: every scored token has at least N/2 tokens before it. Where the
// model wants a BOS, it takes the place of the first token of each chunk.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/progress.h"
#include "models/decoder.h"

namespace espalier {

struct PerplexityOptions {
  int64_t context = 512;       ///< N, at least 3 and at most the model's positions
  std::optional<int32_t> bos;  ///< put at the head of each chunk
  int64_t rows = 2048;         ///< tokens a forward pass, at least one chunk
};

/// A scored token: its place in the given tokens, and -log p in nats.
struct TokenScore {
  int64_t i = 0;
  int32_t id = 0;
  float nll = 0;
};

struct Perplexity {
  double ppl = 0;
  double nll = 0;  ///< mean over the scored tokens, nats
  int64_t tokens_scored = 0, chunks = 0;
  std::vector<TokenScore> tokens;
};

/// Runs the model in its own dtype, with the products that training uses. Throws Error kUsage where the text is
/// shorter than a chunk or the chunk does not suit the model, kMismatch for an id outside the vocabulary, kBadData
/// where a score is not finite.
Perplexity perplexity(Context& ctx, Decoder& model, std::span<const int32_t> ids, const PerplexityOptions& options,
                      Progress& progress = silent_progress());

}  // namespace espalier
