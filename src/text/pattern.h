// What a step of the pipeline looks for in a text, a literal string, a regular expression or a kind of character, and
// the ways to cut the text at what it finds.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/regex.h"
#include "text/tracked_text.h"

namespace espalier {

/// Finds stretches of a text: leftmost first, none empty, none overlapping.
class Pattern {
 public:
  using CharTest = bool (*)(uint32_t code_point);

  explicit Pattern(std::string literal) : kind_(std::move(literal)) {}
  explicit Pattern(RegexSplitter regex) : kind_(std::move(regex)) {}
  explicit Pattern(CharTest test) : kind_(test) {}

  /// Appends the matches in text[span], which is well-formed UTF-8.
  void find(std::string_view text, Span span, std::vector<Span>& matches) const;
  /// Whether there is certainly none, as far as that can be told quickly.
  bool surely_absent(std::string_view text) const;

 private:
  std::variant<std::string, RegexSplitter, CharTest> kind_;
};

/// What becomes of a match.
enum class SplitBehavior { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };

/// Appends the pieces of the span. With `invert` what lies between the matches counts as the matches.
void split_at(Span span, const std::vector<Span>& matches, SplitBehavior behavior, bool invert,
              std::vector<Span>& pieces);

/// text with each match replaced by `content`.
TrackedText replace_all(const TrackedText& text, const Pattern& pattern, std::string_view content);

}  // namespace espalier
