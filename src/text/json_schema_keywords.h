// Keywords of JSON Schema: which are known, of which types they speak, and how two schemas that must both hold become
// one.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "base/json.h"

namespace espalier {

/// Throws Error kUnsupported, naming keyword and place, where a schema has one that is not known.
void check_keywords(const OrderedJson& schema, const std::string& at);

/// Whether a keyword says nothing about what is valid: title, description, $defs, ...
bool is_annotation(const std::string& keyword);

/// The types that a schema's `type` names; without it, those of which its keywords speak, or all. "number" includes
/// "integer".
std::vector<std::string> types_of(const OrderedJson& schema, const std::string& at);

/// A schema that holds where both hold. Throws Error kUnsupported where this has no such form here, kBadData where they
/// contradict each other.
OrderedJson merge_schemas(const OrderedJson& a, const OrderedJson& b, const std::string& at);

}  // namespace espalier
