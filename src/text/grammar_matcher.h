// GrammarMatcher: one text that is written under a grammar, token by token.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "text/token_grammar.h"

namespace espalier {

/// Copyable, and copies are independent: speculation follows each branch of its drafts with one, or goes back to an
/// earlier one.
class GrammarMatcher {
 public:
  explicit GrammarMatcher(std::shared_ptr<const TokenGrammar> grammar);

  /// Whether these bytes can come next. Empty ones can.
  bool accepts(std::string_view bytes) const;
  /// Whether this token can come next: its bytes are not empty and can.
  bool accepts_token(int32_t id) const;
  /// Whether the text may end here; then, and only then, a token that ends texts may be drawn.
  bool may_end() const { return state_.may_end; }
  /// Whether the text must end here: nothing can follow.
  bool must_end() const { return state_.items.empty(); }

  /// Writes bytes or a token. False, and nothing has changed, where they cannot come next.
  bool advance(std::string_view bytes);
  bool advance_token(int32_t id);

  /// The tokens that can come next, without those that end texts. Empty where no token can, although something may have
  /// to follow: then the vocabulary cannot spell it.
  const TokenSet& allowed() const;
  /// Sets the logits [V] of all tokens that cannot come next to -infinity. The tokens `ends` are left as they are where
  /// the text may end, and forbidden elsewhere; so are ids beyond the vocabulary. True where a token is left.
  bool mask(std::span<float> logits, std::span<const int32_t> ends) const;

 private:
  std::shared_ptr<const TokenGrammar> grammar_;
  mutable GrammarStepper stepper_;
  mutable FrameTable frames_;  // grows as states are looked at
  GrammarState state_;
  mutable TokenSet allowed_;
  mutable bool allowed_known_ = false;
};

}  // namespace espalier
