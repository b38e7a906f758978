// GBNF, the grammar notation of llama.cpp:
//
//   root  ::= item ("," item)*      # the text is one `root`; a comment goes on to the end of its line
//   item  ::= "a\n\"" | [a-z0-9_]+ | [^\x00-\x1F] | . | ( root )? | item2{2,3} |   # the last choice is empty
//   item2 ::= "\u00e9"
//
// A rule ends with its line, unless a parenthesis is open or a "|" or "::=" asks for more; a line may begin with "|".
// Names are letters, digits, "-" and "_". Behind a part may stand * + ? {m} {m,} {m,n}. Escapes are \n \r \t \\ \" \[
// \] \- \^ \xHH \uHHHH \UHHHHHHHH, each a code point.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "text/grammar.h"

namespace espalier {

/// Reads a grammar and compiles it. `what` names it in errors. Throws Error kBadData with line, column and what was
/// expected; kUnsupported for references to tokens (<...>) and for what compile_grammar finds too large.
std::shared_ptr<const Grammar> parse_gbnf(std::string_view text, const std::string& what);

}  // namespace espalier
