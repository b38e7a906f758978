#include "serve/grammars.h"

#include <algorithm>

#include "serve/api_error.h"
#include "serve/tool_grammar.h"
#include "text/gbnf.h"
#include "text/json_schema.h"

namespace espalier {
namespace {

constexpr size_t kKept = 16;

std::shared_ptr<const Grammar> compile(const OutputConstraint& constraint) {
  switch (constraint.kind) {
    case OutputConstraint::Kind::kJson: return json_object_grammar();
    case OutputConstraint::Kind::kJsonSchema: return json_schema_grammar(constraint.text, "the request's JSON schema");
    case OutputConstraint::Kind::kToolCall: return tool_call_grammar(constraint.text);
    default: return parse_gbnf(constraint.text, "the request's grammar");
  }
}

/// The field of a request that asks for it.
const char* field_of(OutputConstraint::Kind kind) {
  switch (kind) {
    case OutputConstraint::Kind::kToolCall: return "tools";
    case OutputConstraint::Kind::kGrammar: return "grammar";
    default: return "response_format";
  }
}

}  // namespace

std::shared_ptr<const TokenGrammar> Grammars::find(const OutputConstraint& constraint) {
  if (constraint.kind == OutputConstraint::Kind::kNone) return nullptr;
  const Key key{constraint.kind, constraint.text};
  std::lock_guard lock(mutex_);
  if (const auto at = std::ranges::find(recent_, key, [](const auto& entry) { return entry.first; });
      at != recent_.end()) {
    recent_.splice(recent_.begin(), recent_, at);
    return recent_.front().second;
  }
  try {
    recent_.emplace_front(key, std::make_shared<TokenGrammar>(compile(constraint), trie_));
  } catch (const Error& e) {  // the edge of a request: its form is at fault
    throw ApiError(400, e.what(), field_of(constraint.kind));
  }
  if (recent_.size() > kKept) recent_.pop_back();
  return recent_.front().second;
}

}  // namespace espalier
