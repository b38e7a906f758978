// From tokens to the tree, with Jinja's own grammar: its precedences (~ binds closer than +, filters closer than any
// operator), its tags, and its quirks where templates lean on them.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "text/jinja_ast.h"

namespace espalier::jinja {

/// Reads a template of at most 512 KiB; ill-formed UTF-8 is read as U+FFFD. `what` names it in errors. Throws Error
/// kBadData (no Jinja) or kUnsupported (a tag that we do not have), with the line.
std::shared_ptr<const Program> parse_program(std::string_view source, const std::string& what);

}  // namespace espalier::jinja
