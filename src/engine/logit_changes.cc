#include "engine/logit_changes.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"

namespace espalier {
namespace {

// std::from_chars reads "inf" and "-inf" too.
template <class T>
bool reads(std::string_view text, T& value) {
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failed == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::vector<LogitBias> parse_logit_bias(std::span<const std::string> items) {
  std::vector<LogitBias> biases;
  for (const std::string& item : items) {
    const std::string_view text = item;
    const size_t equals = text.find('=');
    LogitBias b{};
    if (equals == text.npos || !reads(text.substr(0, equals), b.id) || b.id < 0 ||
        !reads(text.substr(equals + 1), b.bias) || !(b.bias < INFINITY))
      throw error(Code::kUsage, "sampling: logit_bias has '{}'; expected ID=BIAS with a bias below infinity, "
                  "such as 15=-2.5 or 15=-inf", item);
    biases.push_back(b);
  }
  std::sort(biases.begin(), biases.end(), [](const LogitBias& a, const LogitBias& b) { return a.id < b.id; });
  const auto twice = std::adjacent_find(biases.begin(), biases.end(),
                                        [](const LogitBias& a, const LogitBias& b) { return a.id == b.id; });
  if (twice != biases.end()) throw error(Code::kUsage, "sampling: logit_bias has token {} twice", twice->id);
  return biases;
}

void add_bias(std::span<float> logits, std::span<const LogitBias> biases) {
  for (const LogitBias& b : biases)
    if (size_t(b.id) < logits.size()) logits[size_t(b.id)] += b.bias;
}

Penalties::Penalties(const SamplerConfig& config)
    : repetition_(float(config.repetition_penalty)), frequency_(float(config.frequency_penalty)),
      presence_(float(config.presence_penalty)), window_(size_t(config.repetition_window)) {}

void Penalties::apply(std::span<float> logits, std::span<const int32_t> context) {
  if (window_ > 0 && context.size() > window_) context = context.last(window_);
  counts_.resize(logits.size());
  const auto known = [&](int32_t id) { return id >= 0 && size_t(id) < logits.size(); };
  for (const int32_t id : context)
    if (known(id)) ++counts_[size_t(id)];
  for (const int32_t id : context) {
    if (!known(id) || counts_[size_t(id)] == 0) continue;  // dealt with where it came first
    float& logit = logits[size_t(id)];
    if (repetition_ != 1) logit = logit > 0 ? logit / repetition_ : logit * repetition_;
    logit -= float(counts_[size_t(id)]) * frequency_ + presence_;
    counts_[size_t(id)] = 0;
  }
}

}  // namespace espalier
