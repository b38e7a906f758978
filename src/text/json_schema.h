// JSON Schema as a grammar: every text of it is JSON that the schema accepts.
//
// Not every such JSON is a text of the grammar, since a model must be led to an end: keys come in the order of
// `properties`; keys beyond these come last, and only where `additionalProperties` says so itself (or there are no
// `properties`); arrays with `prefixItems` go on behind them only where `items` says so; a number is written as
// text/json_grammar.h says. Known are:
//   type, enum, const, anyOf, oneOf (where the choices exclude each other), allOf and siblings of $ref (where they can
//   be merged), $ref within the schema, also recursive; properties, required, additionalProperties; items, prefixItems,
//   minItems, maxItems; minLength, maxLength, pattern (text/json_pattern.h), format (date, time, date-time, uuid, ipv4,
//   email); minimum, maximum, exclusiveMinimum, exclusiveMaximum of integers.
// Any other keyword that says what is valid is an error that names it and its place, never ignored.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"
#include "text/grammar.h"
#include "text/json_grammar.h"

namespace espalier {

/// The grammar of a schema, given as JSON. `what` names it in errors. Throws Error kBadData for what is no schema or
/// accepts nothing, kUnsupported for what cannot be written as a grammar.
std::shared_ptr<const Grammar> json_schema_grammar(std::string_view schema, const std::string& what);

/// The same as a part of a larger grammar; its references stay within `schema`. Throws as json_schema_grammar does.
JsonGrammar::Part json_schema_part(JsonGrammar& json, const OrderedJson& schema, const std::string& what);

/// Any JSON value.
std::shared_ptr<const Grammar> json_value_grammar();
/// Any JSON object.
std::shared_ptr<const Grammar> json_object_grammar();

}  // namespace espalier
