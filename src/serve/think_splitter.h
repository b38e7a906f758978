// Reasoning apart from the answer: models write it between think tags at the start of what they say, or up to a closing
// tag where the template opened it for them. Text comes in any pieces, a tag may be spread over several.
#pragma once
#include <string>
#include <string_view>

namespace espalier {

struct ThinkPiece {
  std::string reasoning, content;
};

class ThinkSplitter {
 public:
  /// `inside`: the prompt ended with the opening tag, as those of some templates do.
  explicit ThinkSplitter(bool inside = false) : state_(inside ? State::kThinking : State::kBegin) {}

  /// What the text sets free. White space around the reasoning and before the answer is dropped.
  ThinkPiece push(std::string_view text);
  /// What was held back because a tag could have begun there.
  ThinkPiece finish();

 private:
  enum class State { kBegin, kThinking, kAfter, kContent };
  bool step(ThinkPiece& piece);

  State state_;
  std::string held_;
  bool reasoned_ = false;  // some reasoning was given
};

/// Whether a rendered prompt ends with an opening tag, white space aside.
bool opens_thinking(std::string_view prompt);

}  // namespace espalier
