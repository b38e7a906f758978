#include "engine/dry.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace espalier {

Dry::Dry(const SamplerConfig& config, const Tokenizer* tokenizer)
    : multiplier_(config.dry_multiplier), base_(config.dry_base), allowed_(size_t(config.dry_allowed_length)),
      range_(size_t(config.dry_range)), breakers_(config.dry_sequence_breakers) {
  if (neutral()) return;
  for (const std::string& text : breakers_)
    if (text.empty()) throw Error(Code::kUsage, "sampling: a text of dry_sequence_breakers is empty");
  if (tokenizer)
    tokenizer_ = *tokenizer;
  else if (!breakers_.empty())
    throw Error(Code::kUsage, "sampling: dry_sequence_breakers are texts, and this model has no tokenizer; give none");
}

// How many tokens stand behind the last one in which a breaker ends. Breakers are sought in the text, since one may lie
// across tokens.
size_t Dry::unbroken(std::span<const int32_t> context) const {
  if (breakers_.empty()) return context.size();
  std::string text;
  std::vector<size_t> ends;
  for (const int32_t id : context) ends.push_back((text += tokenizer_->token_bytes(id)).size());
  size_t last = 0;  // bytes up to the end of the last breaker
  for (const std::string& b : breakers_)
    if (const size_t at = text.rfind(b); at != text.npos) last = std::max(last, at + b.size());
  if (last == 0) return context.size();
  const auto token = std::lower_bound(ends.begin(), ends.end(), last);
  return size_t(ends.end() - token) - 1;
}

// The lengths come from the Z function of the reversed context (Gusfield 1997, chapter 1): z[k] is how many tokens
// before position k from the end equal the last ones. [left, right) is the match that reaches furthest so far; inside
// it, what was found at its start is known to hold again.
void Dry::apply(std::span<float> logits, std::span<const int32_t> context) {
  if (range_ > 0 && context.size() > range_) context = context.last(range_);
  const size_t n = context.size(), limit = unbroken(context);
  if (limit < allowed_) return;
  const auto back = [&](size_t i) { return context[n - 1 - i]; };
  lengths_.assign(n, 0);
  longest_.resize(logits.size());
  for (size_t k = 1, left = 0, right = 0; k < n; ++k) {
    size_t& z = lengths_[k];
    if (k < right) z = std::min(right - k, lengths_[k - left]);
    while (k + z < n && back(z) == back(k + z)) ++z;
    if (k + z > right) left = k, right = k + z;
    const int32_t next = back(k - 1);
    const size_t length = std::min(z, limit);
    if (length >= allowed_ && next >= 0 && size_t(next) < logits.size())
      longest_[size_t(next)] = std::max(longest_[size_t(next)], length);
  }
  for (size_t k = 1; k < n; ++k) {
    const int32_t next = back(k - 1);
    if (next < 0 || size_t(next) >= logits.size() || longest_[size_t(next)] == 0) continue;
    const double penalty = multiplier_ * std::pow(base_, double(longest_[size_t(next)] - allowed_));
    logits[size_t(next)] -= float(std::min(penalty, 1e30));  // finite: a penalty bans nothing
    longest_[size_t(next)] = 0;
  }
}

}  // namespace espalier
