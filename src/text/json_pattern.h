// The regular expressions of JSON Schema's "pattern", as grammars of JSON strings.
//
// Known are characters, ".", classes, \d \w \s \D \W \S, groups, "|", the quantifiers * + ? {m} {m,} {m,n} (lazy ones
// alike), "^" at the start and "$" at the end of the whole or of a choice of the whole. Where dialects differ over
// characters beyond ASCII (\w and its like), only what all of them take is written.
#pragma once
#include <string>
#include <string_view>

#include "text/json_grammar.h"

namespace espalier {

/// A string that the pattern is found in, quotes included. `what` names it in errors. Throws Error kBadData for what is
/// no pattern, kUnsupported for what is not known here (lookahead, references, word borders).
JsonGrammar::Part json_pattern(JsonGrammar& json, std::string_view pattern, const std::string& what);

}  // namespace espalier
