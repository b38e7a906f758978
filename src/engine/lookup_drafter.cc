#include "engine/lookup_drafter.h"

#include <algorithm>

namespace espalier {
namespace {

/// Where the last `n` tokens stood before, the latest such place; -1 where they did not.
int64_t find_before(std::span<const int32_t> text, int64_t n) {
  const auto tail = text.last(size_t(n));
  for (int64_t at = int64_t(text.size()) - n - 1; at >= 0; --at)
    if (std::equal(tail.begin(), tail.end(), text.begin() + at)) return at;
  return -1;
}

}  // namespace

Draft LookupDrafter::propose(std::span<const int32_t> text, int64_t most, const PassCosts&) {
  Draft draft;
  for (int64_t n = std::min(options_.longest, int64_t(text.size()) - 1); n >= options_.shortest; --n) {
    const int64_t at = find_before(text, n);
    if (at < 0) continue;
    const int64_t begin = at + n, count = std::min(most, int64_t(text.size()) - begin);
    for (int64_t i = 0; i < count; ++i) {
      draft.tokens.push_back(text[size_t(begin + i)]);
      draft.parents.push_back(int32_t(i) - 1);
    }
    draft.expected = double(count) / 2;
    break;
  }
  return draft;
}

}  // namespace espalier
