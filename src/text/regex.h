// Splitting by a regular expression: PCRE2 with JIT, for the patterns that text/split.h does not know. Debian 12's
// PCRE2 has the tables of Unicode 14, so letters assigned since then count as something else here.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/tracked_text.h"

namespace espalier {

class RegexSplitter {
 public:
  /// Compiles the pattern. Error kUnsupported with PCRE2's reason and place where it does not compile; `what` names the
  /// file it came from.
  RegexSplitter(const std::string& pattern, const std::string& what);

  /// Appends the matches in text[span] that are not empty. The text is well-formed UTF-8; what lies outside the span
  /// is not seen. Thread safe. Error kUnsupported where a match exceeds PCRE2's limits.
  void find(std::string_view text, Span span, std::vector<Span>& matches) const;
  /// Appends the pieces of text[span], each match and each gap between matches one piece ("Isolated").
  void split(std::string_view text, Span span, std::vector<Span>& pieces) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace espalier
