// The pre-tokenizer of a byte-level tokenizer: steps that cut a text into pieces, each applied to the pieces of the one
// before. One hand-written step, the usual case, needs no memory.
#pragma once
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "text/regex.h"
#include "text/split.h"
#include "text/unicode.h"

namespace espalier {

class PreTokenizer {
 public:
  using Step = std::variant<const SplitPattern*, RegexSplitter>;

  PreTokenizer() = default;
  explicit PreTokenizer(std::vector<Step> steps) : steps_(std::move(steps)) {}

  /// The hand-written pattern, where that is all there is; otherwise null.
  const SplitPattern* pattern() const;

  /// Calls fn(begin, end) with the byte offsets of each piece of a well-formed text, in order.
  template <class F>
  void split(std::string_view text, F&& fn) const {
    if (const SplitPattern* simple = pattern()) {
      for_each_piece(text, simple->piece_end, char_classes(), fn);
    } else {
      for (const Span& piece : split_by_steps(text)) fn(size_t{piece.begin}, size_t{piece.end});
    }
  }

 private:
  std::vector<Span> split_by_steps(std::string_view text) const;
  std::vector<Step> steps_;
};

}  // namespace espalier
