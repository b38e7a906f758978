// The grammar of an answer that must be a call of a tool: written as the model's template writes calls
// (serve/tool_calls.h), with arguments as the function's JSON Schema wants them.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"
#include "serve/tool_calls.h"
#include "text/grammar.h"

namespace espalier {

struct ForcedCall {
  ToolFormat format = ToolFormat::kBare;
  bool opener = true;    ///< the tags are text to this vocabulary; false where they are tokens that say nothing
  bool several = false;  ///< more calls may follow the first
  std::string only;      ///< the one function that may be called; empty: any of the tools
};

/// What tool_call_grammar reads, as text: equal for equal calls, so it serves as a key. `tools` are a request's.
std::string describe_forced_call(const ForcedCall& call, const OrderedJson& tools);

/// The grammar of a description. Throws as json_schema_grammar does, naming the function.
std::shared_ptr<const Grammar> tool_call_grammar(std::string_view description);

}  // namespace espalier
