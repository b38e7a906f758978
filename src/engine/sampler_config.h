// The settings of sampling, under the names that users of llama.cpp know. Every default but temperature's and top_p's
// is neutral: it changes no bit of any draw.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/config.h"

namespace espalier {

struct SamplerConfig {
  double temperature = 0.8;
  double dynatemp_range = 0;
  double dynatemp_exponent = 1;
  double top_n_sigma = 0;
  int64_t top_k = 0;
  double typical_p = 1;
  double top_p = 0.95;
  double min_p = 0;
  double xtc_probability = 0;
  double xtc_threshold = 0.1;
  int64_t mirostat = 0;
  double mirostat_tau = 5;
  double mirostat_eta = 0.1;
  double repetition_penalty = 1;
  double frequency_penalty = 0;
  double presence_penalty = 0;
  int64_t repetition_window = 64;
  double dry_multiplier = 0;
  double dry_base = 1.75;
  int64_t dry_allowed_length = 2;
  int64_t dry_range = 0;
  std::vector<std::string> dry_sequence_breakers = {"\n", ":", "\"", "*"};
  std::vector<std::string> logit_bias;  ///< "ID=BIAS" each
  int64_t seed = 1;

  void visit(Fields& f);
  bool greedy() const { return temperature == 0; }
};

/// Throws Error kUsage, naming the field, where a value is NaN or out of its range. What flags and recipes set was
/// checked when it was set; this is for what comes from elsewhere.
void check_sampler_config(const SamplerConfig& config);

}  // namespace espalier
