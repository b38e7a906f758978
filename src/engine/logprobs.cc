#include "engine/logprobs.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/error.h"
#include "engine/logit_scan.h"

namespace espalier {

Logprobs logprobs(std::span<const float> logits, int32_t id, int64_t top) {
  if (top < 0 || top > kMaxTopLogprobs)
    throw error(Code::kUsage, "top_logprobs is {}; expected 0 to {}", top, kMaxTopLogprobs);
  ESP_CHECK(id >= 0 && size_t(id) < logits.size(), "token {} of {}", id, logits.size());
  LogitScan scan;
  scan.scan(logits);
  const double best = double(scan.best()), normaliser = std::log(sum_exp(logits, scan.best()));
  const auto logprob = [&](float logit) { return float(double(logit) - best - normaliser); };
  Logprobs result{{id, logprob(logits[size_t(id)])}, {}};
  if (top == 0) return result;
  std::vector<TokenLogprob>& list = result.top;  // of logits, until they are few
  scan.each_from(scan.floor_of_rank(top), [&](int32_t token, float logit) { list.push_back({token, logit}); });
  const size_t kept = std::min(list.size(), size_t(top));
  std::partial_sort(list.begin(), list.begin() + std::ptrdiff_t(kept), list.end(),
                    [](const TokenLogprob& a, const TokenLogprob& b) {
                      return a.logprob != b.logprob ? a.logprob > b.logprob : a.id < b.id;
                    });
  list.resize(kept);
  for (TokenLogprob& t : list) t.logprob = logprob(t.logprob);
  return result;
}

}  // namespace espalier
