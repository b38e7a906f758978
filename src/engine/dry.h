// DRY ("don't repeat yourself"): a penalty for the token that would go on with a repetition, the larger the longer the
// repetition already is (p-e-w 2024, text-generation-webui pull request 5677; with the details of llama.cpp).
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/sampler_config.h"
#include "text/tokenizer.h"

namespace espalier {

class Dry {
 public:
  /// `tokenizer` may be null where there are no sequence breakers. Throws Error kUsage for breakers without a tokenizer
  /// and for an empty one.
  Dry(const SamplerConfig& config, const Tokenizer* tokenizer);

  bool neutral() const { return multiplier_ == 0; }

  /// Among the last `dry_range` tokens: where the last n of them stood before, and a token t followed, n the most such
  /// that no sequence breaker ends among them, and n >= dry_allowed_length,
  ///   logit[t] -= dry_multiplier * dry_base^(n - dry_allowed_length).
  void apply(std::span<float> logits, std::span<const int32_t> context);

 private:
  size_t unbroken(std::span<const int32_t> context) const;

  double multiplier_, base_;
  size_t allowed_, range_;
  std::vector<std::string> breakers_;
  std::optional<Tokenizer> tokenizer_;  // for what the tokens say
  std::vector<size_t> lengths_, longest_;
};

}  // namespace espalier
