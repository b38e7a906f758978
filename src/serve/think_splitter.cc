#include "serve/think_splitter.h"

#include <algorithm>

#include "serve/partial_match.h"

namespace espalier {
namespace {

constexpr std::string_view kOpen = "<think>", kClose = "</think>";
constexpr std::string_view kBlanks = " \t\r\n";

void drop_leading_blanks(std::string& text) { text.erase(0, std::min(text.find_first_not_of(kBlanks), text.size())); }

std::string without_trailing_blanks(std::string text) {
  text.resize(text.find_last_not_of(kBlanks) + 1);
  return text;
}

}  // namespace

bool opens_thinking(std::string_view prompt) {
  return prompt.substr(0, prompt.find_last_not_of(kBlanks) + 1).ends_with(kOpen);
}

ThinkPiece ThinkSplitter::push(std::string_view text) {
  held_.append(text);
  ThinkPiece piece;
  while (step(piece)) {
  }
  return piece;
}

/// Moves on by one state; false where more text is needed.
bool ThinkSplitter::step(ThinkPiece& piece) {
  switch (state_) {
    case State::kBegin: {
      const size_t begin = std::min(held_.find_first_not_of(kBlanks), held_.size());
      const std::string_view said = std::string_view(held_).substr(begin);
      if (kOpen.starts_with(said) && said.size() < kOpen.size()) return false;  // nothing said yet, or part of the tag
      const bool thinks = said.starts_with(kOpen);
      if (thinks) held_.erase(0, begin + kOpen.size());
      state_ = thinks ? State::kThinking : State::kContent;
      return true;
    }
    case State::kThinking: {
      if (!reasoned_) drop_leading_blanks(held_);
      const size_t close = held_.find(kClose);
      const bool closed = close != std::string::npos;
      // Blanks wait, too: they are dropped if the tag comes behind them.
      size_t free = closed ? close : held_.size() - partial_match(held_, kClose);
      const std::string said = without_trailing_blanks(held_.substr(0, free));
      free = closed ? close + kClose.size() : said.size();
      piece.reasoning += said;
      reasoned_ = reasoned_ || !said.empty();
      held_.erase(0, free);
      if (closed) state_ = State::kAfter;
      return closed;
    }
    case State::kAfter:
      drop_leading_blanks(held_);
      if (held_.empty()) return false;
      state_ = State::kContent;
      return true;
    default: break;
  }
  piece.content += held_;
  held_.clear();
  return false;
}

ThinkPiece ThinkSplitter::finish() {
  ThinkPiece piece;
  if (state_ == State::kThinking) piece.reasoning = without_trailing_blanks(held_);
  else if (state_ == State::kBegin) piece.content = held_;
  held_.clear();
  return piece;
}

}  // namespace espalier
