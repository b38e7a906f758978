#include "text/json_schema_keywords.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/json_value.h"

namespace espalier {
namespace {

constexpr std::array<const char*, 18> kAnnotations = {
    "title", "description", "default", "examples", "example", "$schema", "$id", "$comment", "readOnly", "writeOnly",
    "deprecated", "discriminator", "$defs", "definitions", "contentMediaType", "contentEncoding", "$vocabulary", "id"};

struct Keyword {
  const char* name;
  const char* type;  // of which it speaks; null: of all
};
constexpr std::array<Keyword, 23> kKeywords = {{{"type", nullptr}, {"enum", nullptr}, {"const", nullptr},
    {"anyOf", nullptr}, {"oneOf", nullptr}, {"allOf", nullptr}, {"$ref", nullptr}, {"uniqueItems", "array"},
    {"properties", "object"}, {"required", "object"}, {"additionalProperties", "object"}, {"items", "array"},
    {"prefixItems", "array"}, {"minItems", "array"}, {"maxItems", "array"}, {"minLength", "string"},
    {"maxLength", "string"}, {"pattern", "string"}, {"format", "string"}, {"minimum", "number"}, {"maximum", "number"},
    {"exclusiveMinimum", "number"}, {"exclusiveMaximum", "number"}}};
constexpr std::array<const char*, 7> kTypes = {"object", "array", "string", "number", "integer", "boolean", "null"};

[[noreturn]] void cannot_merge(const std::string& at, const std::string& keyword) {
  throw error(Code::kUnsupported, "{}: '{}' stands in two schemas that must both hold, and cannot be merged here; "
              "write one schema", at, keyword);
}

[[noreturn]] void contradiction(const std::string& at, const std::string& keyword) {
  throw error(Code::kBadData, "{}: two schemas that must both hold contradict each other in '{}'", at, keyword);
}

OrderedJson both(const OrderedJson& a, const OrderedJson& b) {
  return a == b ? a : OrderedJson{{"allOf", OrderedJson::array({a, b})}};
}

OrderedJson common(const OrderedJson& a, const OrderedJson& b) {
  OrderedJson result = OrderedJson::array();
  for (const OrderedJson& x : a)
    if (std::find(b.begin(), b.end(), x) != b.end()) result.push_back(x);
  return result;
}

OrderedJson merge_types(const OrderedJson& a, const OrderedJson& b, const std::string& at) {
  const auto list = [](const OrderedJson& t) { return t.is_array() ? t : OrderedJson::array({t}); };
  OrderedJson result = OrderedJson::array();
  for (const OrderedJson& x : list(a))
    for (const OrderedJson& y : list(b)) {
      if (x == y || (x == "integer" && y == "number")) result.push_back(x);
      else if (x == "number" && y == "integer") result.push_back(y);
    }
  if (result.empty()) contradiction(at, "type");
  return result;
}

// What additionalProperties of one says of the properties that the other alone names has no merged form.
void require_same_properties(const OrderedJson& a, const OrderedJson& b, const std::string& at) {
  if (!a.contains("additionalProperties") || a["additionalProperties"] == true || !b.contains("properties")) return;
  for (const auto& [name, schema] : b["properties"].items())
    if (!a.contains("properties") || !a["properties"].contains(name)) cannot_merge(at, "additionalProperties");
}

void merge_properties(OrderedJson& into, const OrderedJson& more) {
  for (const auto& [name, schema] : more.items())
    into[name] = into.contains(name) ? both(into[name], schema) : schema;
}

}  // namespace

bool is_annotation(const std::string& keyword) {
  return keyword.starts_with("x-") ||
         std::find(kAnnotations.begin(), kAnnotations.end(), keyword) != kAnnotations.end();
}

void check_keywords(const OrderedJson& schema, const std::string& at) {
  for (const auto& [name, value] : schema.items()) {
    const auto is_it = [&name = name](const Keyword& k) { return name == k.name; };
    if (is_annotation(name) || std::any_of(kKeywords.begin(), kKeywords.end(), is_it)) continue;
    throw error(Code::kUnsupported, "{}: the keyword '{}' cannot be written as a grammar here; leave it out, and check "
                "it afterwards", at, name);
  }
  if (schema.contains("uniqueItems") && schema["uniqueItems"] != false)
    throw error(Code::kUnsupported, "{}: the keyword 'uniqueItems' cannot be written as a grammar here; leave it out, "
                "and check it afterwards", at);
}

std::vector<std::string> types_of(const OrderedJson& schema, const std::string& at) {
  std::vector<std::string> types;
  const auto add = [&](const std::string& t) {
    if (std::find(types.begin(), types.end(), t) == types.end()) types.push_back(t);
  };
  if (!schema.contains("type")) {
    for (const Keyword& k : kKeywords)
      if (k.type && schema.contains(k.name)) add(k.type);
    if (types.empty()) types = {"object", "array", "string", "number", "boolean", "null"};
    return types;
  }
  const OrderedJson& type = schema["type"];
  for (const OrderedJson& t : type.is_array() ? type : OrderedJson::array({type})) {
    if (!t.is_string() || std::find(kTypes.begin(), kTypes.end(), t.get<std::string>()) == kTypes.end())
      throw error(Code::kBadData, "{}: type is {}; expected object, array, string, number, integer, boolean or null",
                  at, t.dump());
    add(t.get<std::string>());
  }
  if (types.empty()) throw error(Code::kBadData, "{}: type is an empty list", at);
  if (std::find(types.begin(), types.end(), "number") != types.end()) std::erase(types, "integer");
  return types;
}

OrderedJson merge_schemas(const OrderedJson& a, const OrderedJson& b, const std::string& at) {
  require_same_properties(a, b, at);
  require_same_properties(b, a, at);
  OrderedJson result = a;
  for (const auto& [key, value] : b.items()) {
    if (!result.contains(key)) result[key] = value;
    else if (is_annotation(key) || result[key] == value) continue;
    else if (key == "type") result[key] = merge_types(result[key], value, at);
    else if (key == "properties" && value.is_object() && result[key].is_object()) merge_properties(result[key], value);
    else if ((key == "required" || key == "allOf") && value.is_array() && result[key].is_array())
      for (const OrderedJson& x : value) result[key].push_back(x);
    else if (key == "additionalProperties" || key == "items") {
      if (result[key] == false || value == false) result[key] = false;
      else result[key] = both(result[key], value);
    } else if (key == "enum") {
      result[key] = common(result[key], value);
      if (result[key].empty()) contradiction(at, key);
    } else if (value.is_number() && result[key].is_number() && (key.starts_with("min") || key == "exclusiveMinimum"))
      result[key] = std::max(result[key], value);
    else if (value.is_number() && result[key].is_number() && (key.starts_with("max") || key == "exclusiveMaximum"))
      result[key] = std::min(result[key], value);
    else if (key == "const") contradiction(at, key);
    else cannot_merge(at, key);
  }
  return result;
}

}  // namespace espalier
