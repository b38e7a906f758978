// Integers of a range, written in decimal: which digits may stand at a place depends on whether the digits before are
// still those of a bound.
#include <algorithm>

#include "text/json_grammar.h"

namespace espalier {
namespace {

using Part = JsonGrammar::Part;

constexpr int64_t kMaxDigits = 16;

class Decimal {
 public:
  explicit Decimal(GrammarSource& g) : g_(g) {}

  Part digits(int64_t min, int64_t max) { return g_.repeat(g_.character({{'0', '9'}}), min, max); }

  /// Digits of the length of `bound` that are at least, or at most, it.
  Part from(std::string_view bound) { return beside(bound, true); }
  Part to(std::string_view bound) { return beside(bound, false); }

  /// From low to high, which have one length.
  Part between(std::string_view low, std::string_view high) {
    const size_t same = size_t(std::mismatch(low.begin(), low.end(), high.begin()).first - low.begin());
    if (same == low.size()) return g_.literal(low);
    const std::string_view low_rest = low.substr(same + 1), high_rest = high.substr(same + 1);
    std::vector<Part> ways = {g_.sequence({one(low[same], low[same]), from(low_rest)}),
                              g_.sequence({one(high[same], high[same]), to(high_rest)})};
    if (low[same] + 1 < high[same])
      ways.push_back(g_.sequence({one(char(low[same] + 1), char(high[same] - 1)), any(low_rest.size())}));
    return g_.sequence({g_.literal(low.substr(0, same)), g_.choice(std::move(ways))});
  }

 private:
  Part one(char first, char last) { return g_.character({{uint32_t(first), uint32_t(last)}}); }
  Part any(size_t count) { return digits(int64_t(count), int64_t(count)); }

  Part beside(std::string_view bound, bool above) {
    std::vector<Part> ways = {g_.literal(bound)};
    for (size_t i = 0; i < bound.size(); ++i) {
      const char first = above ? char(bound[i] + 1) : '0', last = above ? '9' : char(bound[i] - 1);
      if (first > last) continue;
      ways.push_back(g_.sequence({g_.literal(bound.substr(0, i)), one(first, last), any(bound.size() - i - 1)}));
    }
    return g_.choice(std::move(ways));
  }

  GrammarSource& g_;
};

uint64_t magnitude_of(int64_t x) { return x < 0 ? uint64_t{0} - uint64_t(x) : uint64_t(x); }

}  // namespace

// No sign, no leading zeros. Without an upper bound the digits are limited, but there are always some numbers left.
Part JsonGrammar::magnitude(const std::string& min, const std::optional<std::string>& max) {
  Decimal d(g_);
  const int64_t shortest = int64_t(min.size());
  std::vector<Part> ways;
  if (max && max->size() == min.size()) return d.between(min, *max);
  if (min == "0") ways.push_back(g_.literal("0"));
  ways.push_back(d.from(min == "0" ? "1" : min));
  const int64_t longest = max ? int64_t(max->size()) - 1 : std::max(kMaxDigits, shortest + 1);
  if (longest > shortest)
    ways.push_back(g_.sequence({g_.character({{'1', '9'}}), digits(shortest, longest - 1)}));
  if (max) ways.push_back(d.between("1" + std::string(max->size() - 1, '0'), *max));
  return g_.choice(std::move(ways));
}

Part JsonGrammar::integer(std::optional<int64_t> min, std::optional<int64_t> max) {
  const auto text = [](uint64_t x) { return std::to_string(x); };
  std::vector<Part> ways;
  if (!max || *max >= 0) {
    const auto high = max ? std::optional(text(uint64_t(*max))) : std::nullopt;
    if (!min || !max || *min <= *max) ways.push_back(magnitude(text(min && *min > 0 ? uint64_t(*min) : 0), high));
  }
  if ((!min || *min < 0) && !(min && max && *min > *max)) {
    const auto high = min ? std::optional(text(magnitude_of(*min))) : std::nullopt;
    const std::string low = max && *max < 0 ? text(magnitude_of(*max)) : "1";
    ways.push_back(g_.sequence({g_.literal("-"), magnitude(low, high)}));
  }
  return g_.choice(std::move(ways));
}

}  // namespace espalier
