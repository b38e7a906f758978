// What changes single logits before any filter: biases that the request gives, and penalties for what was said. Each
// touches the ids concerned and no others.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/sampler_config.h"

namespace espalier {

struct LogitBias {
  int32_t id;
  float bias;  ///< -infinity bans the token
};

/// From "ID=BIAS" each. Throws Error kUsage where one is not that, is NaN or +infinity, or an id occurs twice.
std::vector<LogitBias> parse_logit_bias(std::span<const std::string> items);

/// logit[id] += bias. Ids beyond the logits are passed over.
void add_bias(std::span<float> logits, std::span<const LogitBias> biases);

/// The three penalties on what the last `repetition_window` tokens say. For each of their ids, which occurs n times:
///   l = l > 0 ? l / repetition_penalty : l * repetition_penalty   (Keskar et al. 2019, CTRL, made right for l <= 0)
///   l = l - n * frequency_penalty - presence_penalty              (OpenAI's API reference)
class Penalties {
 public:
  explicit Penalties(const SamplerConfig& config);

  bool neutral() const { return repetition_ == 1 && frequency_ == 0 && presence_ == 0; }
  void apply(std::span<float> logits, std::span<const int32_t> context);

 private:
  float repetition_, frequency_, presence_;
  size_t window_;
  std::vector<int32_t> counts_;  // by id; zero between calls
};

}  // namespace espalier
