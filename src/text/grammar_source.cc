#include "text/grammar_source.h"

#include <algorithm>

namespace espalier {

std::vector<CodeRange> normalise(std::vector<CodeRange> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const CodeRange& a, const CodeRange& b) { return a.first < b.first; });
  std::vector<CodeRange> result;
  for (const CodeRange& r : ranges) {
    if (!result.empty() && r.first <= result.back().last + 1)
      result.back().last = std::max(result.back().last, r.last);
    else
      result.push_back(r);
  }
  return result;
}

std::vector<CodeRange> complement(const std::vector<CodeRange>& ranges) {
  std::vector<CodeRange> result;
  uint32_t from = 0;
  for (const CodeRange& r : ranges) {
    if (r.first > from) result.push_back({from, r.first - 1});
    from = r.last + 1;
  }
  if (from <= 0x10FFFF) result.push_back({from, 0x10FFFF});
  return result;
}

GrammarSource::Part GrammarSource::add(Node node) {
  nodes_.push_back(std::move(node));
  return Part(nodes_.size() - 1);
}

GrammarSource::Part GrammarSource::literal(std::string_view bytes) {
  return add({.kind = Kind::kLiteral, .bytes = std::string(bytes)});
}

GrammarSource::Part GrammarSource::character(std::vector<CodeRange> ranges, bool negated) {
  ranges = normalise(std::move(ranges));
  return add({.kind = Kind::kCharacter, .ranges = negated ? complement(ranges) : std::move(ranges)});
}

GrammarSource::Part GrammarSource::sequence(std::vector<Part> parts) {
  return parts.size() == 1 ? parts[0] : add({.kind = Kind::kSequence, .parts = std::move(parts)});
}

GrammarSource::Part GrammarSource::choice(std::vector<Part> parts) {
  return parts.size() == 1 ? parts[0] : add({.kind = Kind::kChoice, .parts = std::move(parts)});
}

GrammarSource::Part GrammarSource::repeat(Part part, int64_t min, std::optional<int64_t> max) {
  return add({.kind = Kind::kRepeat, .parts = {part}, .min = min, .max = max.value_or(-1)});
}

GrammarSource::Part GrammarSource::rule(Rule rule) { return add({.kind = Kind::kRule, .rule = rule}); }

GrammarSource::Rule GrammarSource::declare(std::string name) {
  rules_.push_back({std::move(name), std::nullopt});
  return Rule(rules_.size() - 1);
}

GrammarSource::Part GrammarSource::named(std::string name, Part body) {
  const Rule r = declare(std::move(name));
  define(r, body);
  return rule(r);
}

}  // namespace espalier
