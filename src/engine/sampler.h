// Sampling: from the logits of one position to the next token.
//
// The order of the steps is fixed, and it is llama.cpp's:
//   repetition penalty -> top-k -> top-p -> min-p -> temperature -> draw
// The filters come before the temperature, so that they judge the model's own distribution and "top-p 0.9" keeps the
// same tokens at every temperature. (transformers divides by the temperature first.) Temperature 0 takes the best
// token.
//
// Every filter keeps the first tokens in order of falling logit, the lower id first where logits are equal, so ties are
// settled the same way everywhere. Only where that cut falls is sought; no vocabulary is sorted. What is kept stays in
// order of ids, and a filter that drops nothing changes no draw.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/config.h"
#include "base/rng.h"

namespace espalier {

struct SamplerConfig {
  double temperature = 0.8;
  int64_t top_k = 0;
  double top_p = 0.95;
  double min_p = 0;
  double repetition_penalty = 1;
  int64_t repetition_window = 64;
  int64_t seed = 1;

  void visit(Fields& f) {
    f.field("temperature", temperature, "0 takes the likeliest token; 1 draws from the model's own distribution", 0,
            100);
    f.field("top_k", top_k, "draw from the k likeliest tokens; 0: from all", 0, int64_t{1} << 31);
    f.field("top_p", top_p, "draw from the fewest tokens whose probabilities reach this sum", 0, 1);
    f.field("min_p", min_p, "drop tokens below this share of the likeliest one's probability", 0, 1);
    f.field("repetition_penalty", repetition_penalty,
            "divides positive logits of recent tokens, multiplies negative ones", 0.01, 100);
    f.field("repetition_window", repetition_window, "how many last tokens are recent, the prompt's too; 0: all", 0);
    f.field("seed", seed, "of the draws; the same seed gives the same text");
  }
  bool greedy() const { return temperature == 0; }
};

/// Draws the tokens of one request. The draw of token i depends on (seed, request, i) and the logits alone.
class Sampler {
 public:
  struct Candidate {
    int32_t id;
    float logit;  ///< penalty applied
    double probability;
  };

  /// `request` separates requests that share a seed. Error kUsage where a setting makes no sense (NaN, out of range).
  Sampler(const SamplerConfig& config, uint64_t request);

  /// What is drawn from: the tokens that the filters keep, with probabilities that sum to 1. `context` is the prompt
  /// and what was generated so far, for the repetition penalty (Keskar et al. 2019, CTRL). Valid until the next call.
  /// Throws Error kBadData where a logit is NaN or +infinity, or all are -infinity (a masked token).
  std::span<const Candidate> distribution(std::span<const float> logits, std::span<const int32_t> context);

  /// The id of generated token number `index`.
  int32_t sample(std::span<const float> logits, std::span<const int32_t> context, uint64_t index);

 private:
  void gather(std::span<const float> logits, std::span<const int32_t> context);
  void penalise(std::span<const int32_t> context);
  float best_logit() const;
  template <class Measure>
  void keep_until(double enough, Measure measure);
  void keep_best();
  void keep_top_k();
  void keep_top_p();
  void keep_min_p();
  void weigh();

  SamplerConfig config_;
  Rng rng_;
  std::vector<Candidate> candidates_;  // all tokens, then what is left of them
  std::vector<Candidate> boundary_;
};

}  // namespace espalier
