#include "text/grammar_matcher.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace espalier {

GrammarMatcher::GrammarMatcher(std::shared_ptr<const TokenGrammar> grammar)
    : grammar_(std::move(grammar)), stepper_(grammar_->grammar()), state_(stepper_.begin(frames_)),
      allowed_(grammar_->trie().vocab_size()) {}

bool GrammarMatcher::accepts(std::string_view bytes) const {
  stepper_.set_budget(GrammarStepper::kBudget);
  GrammarState state = state_;
  for (const char byte : bytes) {
    state = stepper_.after(state, uint8_t(byte), frames_);
    if (state.dead()) return false;
  }
  return true;
}

bool GrammarMatcher::accepts_token(int32_t id) const {
  if (allowed_known_) return allowed_.has(id);
  const std::string_view bytes = grammar_->trie().bytes(id);
  return !bytes.empty() && accepts(bytes);
}

bool GrammarMatcher::advance(std::string_view bytes) {
  stepper_.set_budget(GrammarStepper::kBudget);
  GrammarState state = state_;
  for (const char byte : bytes) {
    state = stepper_.after(state, uint8_t(byte), frames_);
    if (state.dead()) return false;
  }
  allowed_known_ = allowed_known_ && bytes.empty();
  state_ = std::move(state);
  return true;
}

bool GrammarMatcher::advance_token(int32_t id) {
  const std::string_view bytes = grammar_->trie().bytes(id);
  return !bytes.empty() && advance(bytes);
}

const TokenSet& GrammarMatcher::allowed() const {
  if (!allowed_known_) {
    allowed_.clear();
    grammar_->allowed(state_, stepper_, frames_, allowed_);
    allowed_known_ = true;
  }
  return allowed_;
}

bool GrammarMatcher::mask(std::span<float> logits, std::span<const int32_t> ends) const {
  constexpr float kForbidden = -std::numeric_limits<float>::infinity();
  std::vector<std::pair<size_t, float>> kept;
  for (const int32_t id : ends)
    if (id >= 0 && size_t(id) < logits.size())
      kept.emplace_back(size_t(id), state_.may_end ? logits[size_t(id)] : kForbidden);
  const TokenSet& tokens = allowed();
  tokens.mask(logits);
  for (const auto& [id, logit] : kept) logits[id] = logit;
  return std::ranges::any_of(logits, [](float logit) { return logit != kForbidden; });
}

}  // namespace espalier
