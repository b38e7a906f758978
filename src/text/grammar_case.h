// Test support: whole texts against a grammar.
#pragma once
#include <string>
#include <string_view>

#include "base/error.h"
#include "text/gbnf.h"
#include "text/grammar_state.h"

namespace espalier {

/// What became of a text: "yes", "open" (more must follow), or "no at N" where byte N cannot follow.
inline std::string follow(const Grammar& grammar, std::string_view text) {
  FrameTable frames;
  GrammarStepper stepper(grammar);
  GrammarState state = stepper.begin(frames);
  for (size_t i = 0; i < text.size(); ++i) {
    stepper.set_budget(GrammarStepper::kBudget);
    state = stepper.after(state, uint8_t(text[i]), frames);
    if (state.dead()) return "no at " + std::to_string(i);
  }
  return state.may_end ? "yes" : "open";
}

/// The message with which a grammar is refused, or "accepted".
inline std::string gbnf_refusal(std::string_view text) {
  try {
    parse_gbnf(text, "g.gbnf");
  } catch (const Error& e) {  // the edge: the message is what is tested
    return e.what();
  }
  return "accepted";
}

}  // namespace espalier
