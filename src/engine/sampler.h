// Sampling: from the logits of one position to the next token.
//
// The order of the steps is fixed, and it is llama.cpp's:
//   logit bias -> penalties (repetition, frequency, presence) -> DRY -> top-n-sigma -> top-k -> typical-p -> top-p ->
//   min-p -> XTC -> temperature (dynamic if told so) -> draw
// and with mirostat 2:
//   logit bias -> penalties -> DRY -> temperature -> mirostat -> draw
// The filters come before the temperature, so that they judge the model's own distribution and "top-p 0.9" keeps the
// same tokens at every temperature. (transformers divides by the temperature first.) Temperature 0 takes the best token
// of those that are left.
//
// Each step is a function that says its formula and source: engine/logit_changes.h, engine/dry.h, engine/candidates.h.
// What changes no logit costs nothing; greedy decoding without penalties is one pass (engine/logit_scan.h).
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/rng.h"
#include "engine/candidates.h"
#include "engine/dry.h"
#include "engine/logit_changes.h"
#include "engine/sampler_config.h"

namespace espalier {

/// Draws the tokens of one request. The draw of token i depends on (seed, request, i) and the logits alone; with
/// mirostat also on the tokens drawn before, in their order. Copyable: a copy goes on alike.
class Sampler {
 public:
  using Candidate = espalier::Candidate;

  /// `request` separates requests that share a seed. `tokenizer` is needed for DRY's sequence breakers alone. Error
  /// kUsage where a setting makes no sense (NaN, out of range).
  Sampler(const SamplerConfig& config, uint64_t request, const Tokenizer* tokenizer = nullptr);

  /// What token number `index` is drawn from: the tokens that the filters keep, in order of ids, with probabilities
  /// that sum to 1. `context` is the prompt and what was generated so far, for the penalties; `index` matters to XTC,
  /// which tosses a coin. Valid until the next call. Throws Error kBadData where a logit is NaN or +infinity, or all
  /// are -infinity (a masked token).
  std::span<const Candidate> distribution(std::span<const float> logits, std::span<const int32_t> context,
                                          uint64_t index = 0);

  /// The id of generated token number `index`.
  int32_t sample(std::span<const float> logits, std::span<const int32_t> context, uint64_t index);

 private:
  std::span<const float> changed(std::span<const float> logits, std::span<const int32_t> context);
  bool takes_best_of_all() const;
  void filter(uint64_t index);
  float top_n_sigma_floor() const;
  double temperature();
  const Candidate& pick(uint64_t index) const;

  SamplerConfig config_;
  Rng rng_;
  std::vector<LogitBias> biases_;
  Penalties penalties_;
  Dry dry_;
  double mu_;  // mirostat's bound on the surprise, in bits
  std::vector<float> changed_;
  LogitScan scan_;
  Candidates candidates_;
};

}  // namespace espalier
