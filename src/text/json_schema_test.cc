#include "text/json_schema.h"

#include <regex>

#include <gtest/gtest.h>

#include "base/json.h"
#include "base/json_value.h"
#include "base/rng.h"
#include "text/grammar_case.h"

namespace espalier {
namespace {

std::string refusal(const std::string& schema) {
  try {
    json_schema_grammar(schema, "s");
  } catch (const Error& e) {  // the edge: the message is what is tested
    return e.what();
  }
  return "accepted";
}

struct Case {
  const char* schema;
  std::vector<std::string> yes, no;  // no: refused, or not a whole text
};

void expect_cases(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.schema);
    ASSERT_EQ(refusal(c.schema), "accepted");
    const auto grammar = json_schema_grammar(c.schema, "s");
    for (const std::string& text : c.yes) EXPECT_EQ(follow(*grammar, text), "yes") << text;
    for (const std::string& text : c.no) EXPECT_NE(follow(*grammar, text), "yes") << text;
  }
}

TEST(JsonSchema, Scalars) {
  expect_cases({
      {R"({"type": "string"})", {R"("")", R"("aé\n\u00e9\"\\/日🙂")", "\"\x7f\""},
       {"\"", "a", R"("\x")", "\"\n\"", R"("\ud800")", "\"\xff\"", "\"a\" "}},
      {R"({"type": "integer"})", {"0", "-1", "1234567890123456"}, {"01", "-0", "1.5", "+1", "12345678901234567", ""}},
      {R"({"type": "number"})", {"0", "-0", "1.50", "1e5", "-1.2E-07"}, {"1.", ".5", "1e", "01", "NaN", "0x1"}},
      {R"({"type": "boolean"})", {"true", "false"}, {"True", "1"}},
      {R"({"type": "null"})", {"null"}, {"nil"}},
      {R"({"type": ["string", "null"]})", {"null", R"("x")"}, {"1"}},
      {R"({"enum": ["a\"b", 1, null, {"k": [1, 2]}, "é"]})", {R"("a\"b")", "1", "null", R"({"k":[1,2]})", "\"é\""},
       {"2", R"("a")"}},
      {R"({"const": -1.5})", {"-1.5"}, {"1.5"}},
      {R"({"type": "integer", "enum": [1, "a", 2.5, 3.0]})", {"1", "3.0"}, {"\"a\"", "2.5"}},
      {R"({"type": "string", "minLength": 2, "maxLength": 3})", {R"("ab")", R"("日本🙂")", R"("\u00e9\n")"},
       {R"("a")", R"("abcd")"}},
      {R"({"minLength": 1})", {R"("a")"}, {R"("")", "1"}},
      {"true", {"1", R"({"a": [null]})"}, {""}},
      {"{}", {"[1, 2]", "\"x\""}, {"[1,]"}},
  });
}

TEST(JsonSchema, IntegersOfARange) {
  const auto limited = [](std::optional<int64_t> min, std::optional<int64_t> max) {
    OrderedJson schema = {{"type", "integer"}};
    if (min) schema["minimum"] = *min;
    if (max) schema["maximum"] = *max;
    return json_schema_grammar(schema.dump(), "s");
  };
  const std::vector<std::optional<int64_t>> bounds = {std::nullopt, -1234, -100, -99, -10, -9, -1, 0,
                                                      1, 5, 9, 10, 11, 19, 99, 100, 101, 250, 999, 1000, 2001};
  for (const auto& min : bounds)
    for (const auto& max : bounds) {
      if (min && max && *min > *max) continue;
      const auto grammar = limited(min, max);
      for (int64_t x = -2100; x <= 2100; x += x > -150 && x < 150 ? 1 : 7)
        ASSERT_EQ(follow(*grammar, std::to_string(x)) == "yes", (!min || x >= *min) && (!max || x <= *max))
            << x << " in " << min.value_or(-9999) << " to " << max.value_or(9999);
      for (const char* text : {"00", "-0", "01", "-01", "-", "+1", "1.0"})
        EXPECT_NE(follow(*grammar, text), "yes") << text;
    }
  EXPECT_EQ(follow(*limited(899999999999999999, std::nullopt), "900000000000000000"), "yes");
  expect_cases({
      {R"({"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 4})", {"2", "3"}, {"1", "4"}},
      {R"({"type": "integer", "minimum": 0.5, "maximum": 2.5})", {"1", "2"}, {"0", "3"}},
      {R"({"type": "integer", "exclusiveMinimum": 1.0, "maximum": 2})", {"2"}, {"1"}},
  });
}

TEST(JsonSchema, Objects) {
  expect_cases({
      {R"({"type": "object"})", {"{}", "{ }", R"({"a": 1,"b":{}})", "{\n  \"a\": null\n}"},
       {"{,}", R"({"a"})", R"({"a":1,})"}},
      {R"({"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["a", "b"]})",
       {R"({"a":1,"b":"x"})", "{\n \"a\": 1, \"b\": \"x\" }"},
       {"{}", R"({"a":1})", R"({"b":"x","a":1})", R"({"a":1,"b":"x","c":1})"}},
      {R"({"properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}}, "required": ["b"]})",
       {R"({"b":2})", R"({"a":1,"b":2})", R"({"b":2,"c":3})", R"({"a":1,"b":2,"c":3})"},
       {"{}", R"({"a":1})", R"({"a":1,"c":3})", R"({,"b":2})", R"({"b":2,})", R"({"b":2,"b":2})"}},
      {R"({"properties": {"a": {"const": 1}, "b": {"const": 2}}})",
       {"{}", R"({"a":1})", R"({"b":2})", R"({"a":1,"b":2})"},
       {R"({"b":2,"a":1})", R"({"c":1})"}},
      {R"({"type": "object", "additionalProperties": {"type": "integer"}})",
       {"{}", R"({"x":1,"\n":2})"}, {R"({"x":"y"})"}},
      {R"({"type": "object", "additionalProperties": false})", {"{}"}, {R"({"x":1})"}},
      {R"({"properties": {"ab": {"const": 1}}, "additionalProperties": {"type": "null"}})",
       {"{}", R"({"ab":1})", R"({"ab":1,"a":null,"abc":null,"":null,"é":null})", R"({"b":null})"},
       {R"({"ab":null})", R"({"a":1})", R"({"a":null,"ab":1})", R"({"a\u0062":null})"}},
      {R"({"properties": {"a": false, "b": {"const": 1}}, "required": ["x"], "additionalProperties": true})",
       {R"({"x":[1]})", R"({"b":1,"x":2,"y":3})"}, {"{}", R"({"a":1,"x":1})"}},
      {R"({"properties": {"k\"é": {"const": 1}}, "required": ["k\"é"]})", {R"({"k\"é":1})"}, {"{}"}},
  });
}

TEST(JsonSchema, Arrays) {
  expect_cases({
      {R"({"type": "array"})", {"[]", "[ ]", "[1,\"a\", [null]]"}, {"[1,]", "[,1]"}},
      {R"({"items": {"type": "integer"}, "minItems": 1, "maxItems": 3})",
       {"[1]", "[1, 2,3]"}, {"[]", "[1,2,3,4]", "[\"a\"]"}},
      {R"({"items": {"type": "integer"}, "minItems": 2})", {"[1,2]", "[1,2,3,4,5]"}, {"[1]"}},
      {R"({"type": "array", "maxItems": 0})", {"[]"}, {"[1]"}},
      {R"({"type": "array", "items": false})", {"[]"}, {"[1]"}},
      {R"({"prefixItems": [{"const": 1}, {"const": 2}]})", {"[]", "[1]", "[1,2]"}, {"[2]", "[1,2,3]"}},
      {R"({"prefixItems": [{"const": 1}, {"const": 2}], "minItems": 2, "items": {"const": 3}})",
       {"[1,2]", "[1,2,3,3]"}, {"[1]", "[1,2,4]"}},
      {R"({"prefixItems": [{"const": 1}, {"const": 2}], "minItems": 1, "maxItems": 3, "items": {"const": 3}})",
       {"[1]", "[1,2]", "[1,2,3]"}, {"[]", "[1,2,3,3]"}},
      {R"({"prefixItems": [{"const": 1}], "minItems": 2, "maxItems": 3})", {"[1,\"any\"]"}, {"[1]", "[1,2,3]"}},
      {R"({"items": [{"const": 1}, {"const": 2}]})", {"[1,2]", "[1]"}, {"[2]"}},
      {R"({"prefixItems": [{"const": 1}, {"const": 2}], "maxItems": 1})", {"[]", "[1]"}, {"[1,2]"}},
  });
}

TEST(JsonSchema, ChoicesMergesAndReferences) {
  expect_cases({
      {R"({"anyOf": [{"type": "integer"}, {"const": "x"}]})", {"1", "\"x\""}, {"\"y\""}},
      {R"({"oneOf": [{"type": "integer"}, {"type": "string"}]})", {"1", "\"x\""}, {"null"}},
      {R"({"oneOf": [{"properties": {"t": {"const": "a"}, "x": {"const": 1}}, "required": ["t", "x"], "type": "object"},
                     {"properties": {"t": {"enum": ["b"]}}, "required": ["t"], "type": "object"}]})",
       {R"({"t":"a","x":1})", R"({"t":"b"})"}, {R"({"t":"b","x":1})"}},
      {R"({"allOf": [{"properties": {"a": {"type": "number"}}, "required": ["a"]},
                     {"properties": {"a": {"type": "integer", "minimum": 3}, "b": {"const": 1}}, "required": ["b"]}]})",
       {R"({"a":3,"b":1})"}, {R"({"a":2,"b":1})", R"({"a":3.5,"b":1})", R"({"a":3})"}},
      {R"({"type": "integer", "minimum": 1, "anyOf": [{"maximum": 3}, {"minimum": 7, "maximum": 8}]})", {"1", "3", "7"},
       {"0", "5", "9"}},
      {R"({"$ref": "#/$defs/n", "$defs": {"n": {"type": "object", "properties": {"v": {"type": "integer"},
           "next": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}}, "required": ["v", "next"]}}})",
       {R"({"v":1,"next":null})", R"({"v":1,"next":{"v":2,"next":{"v":3,"next":null}}})"}, {R"({"v":1})"}},
      {R"({"type": "array", "items": {"$ref": "#"}})", {"[]", "[[],[[]]]"}, {"[1]"}},
      {R"({"$ref": "#/$defs/a~1b~0", "$defs": {"a/b~": {"const": 1}}})", {"1"}, {"2"}},
      {R"({"$ref": "#/$defs/l/1", "$defs": {"l": [{"const": 1}, {"const": 2}]}})", {"2"}, {"1"}},
      {R"({"$defs": {"p": {"type": "integer"}},
           "properties": {"a": {"$ref": "#/$defs/p", "minimum": 5, "title": "t"}}})",
       {R"({"a":5})"}, {R"({"a":4})"}},
  });
}

TEST(JsonSchema, PatternsAndFormats) {
  expect_cases({
      {R"J({"pattern": "^[a-z]+-\\d{2,3}(x|yz)?$"})J",
       {R"("ab-12")", R"("a-123yz")"}, {R"("ab-1")", R"("A-12")", R"("a-12xy")"}},
      {R"J({"pattern": "b+"})J", {R"("b")", R"("abbc")", R"("\n\"b")"}, {R"("")", R"("ac")"}},
      {R"J({"pattern": "^a|b$"})J", {R"("a")", R"("axx")", R"("xxb")"}, {R"("xa")", R"("bx")"}},
      {R"J({"pattern": "^\"\\\\/\\.[\"\\\\n]$"})J", {R"("\"\\/.\"")", R"("\"\\/.n")"}, {R"("\"\\/.x")"}},
      {R"J({"pattern": "^.\\s[^a\\d]\\u00e9\\x41$"})J", {R"("é béA")", R"("x\t-éA")"}, {R"("x 1éA")"}},
      {R"J({"pattern": "^(?:ab?){2}\\w*?$"})J", {R"("aab_9")", R"("abab")"}, {R"("ab")", R"("abab-")"}},
      {R"J({"format": "date"})J", {R"("2024-02-29")", R"("2000-02-29")", R"("1999-12-31")"},
       {R"("2023-02-29")", R"("1900-02-29")", R"("2024-04-31")", R"("2024-13-01")", R"("24-01-01")"}},
      {R"J({"format": "date-time"})J", {R"("2024-01-01T23:59:59Z")", R"("2024-01-01T00:00:00.125+05:30")"},
       {R"("2024-01-01 00:00:00Z")", R"("2024-01-01T24:00:00Z")", R"("2024-01-01T00:00:00")"}},
      {R"J({"format": "time"})J", {R"("12:00:00Z")"}, {R"("12:60:00Z")"}},
      {R"J({"format": "uuid"})J",
       {R"("123e4567-e89b-12d3-A456-426614174000")"}, {R"("123e4567e89b12d3a456426614174000")"}},
      {R"J({"format": "ipv4"})J", {R"("0.255.9.10")"}, {R"("256.1.1.1")", R"("01.1.1.1")"}},
      {R"J({"format": "email"})J", {R"("a.b+c@x-y.example.org")"}, {R"("a..b@x.org")", R"("a@b")"}},
  });
}

TEST(JsonSchema, WhatItCannotDoIsNamed) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"J({"not": {}})J", "s: at #: the keyword 'not' cannot be written as a grammar here"},
      {R"J({"properties": {"a": {"items": {"if": {}}}}})J", "s: at #/properties/a/items: the keyword 'if'"},
      {R"J({"type": "array", "uniqueItems": true})J", "'uniqueItems'"},
      {R"J({"type": "array", "contains": {}})J", "'contains'"},
      {R"J({"type": "object", "patternProperties": {}})J", "'patternProperties'"},
      {R"J({"type": "number", "multipleOf": 2})J", "'multipleOf'"},
      {R"J({"type": "number", "minimum": 2})J", "'minimum' is known for integers alone"},
      {R"J({"type": "float"})J", "type is \"float\"; expected object"},
      {R"J({"type": []})J", "type is an empty list"},
      {R"J({"enum": []})J", "no value of const or enum is left"},
      {R"J({"enum": [1], "type": "string"})J", "no value of const or enum is left"},
      {R"J({"enum": ["a"], "maxLength": 3})J", "'maxLength' beside const or enum"},
      {R"J({"type": "string", "format": "iri"})J", "the format 'iri' is not known"},
      {R"J({"type": "string", "pattern": "a(?=b)"})J", "at character 4: a group that begins with (? cannot be written"},
      {R"J({"type": "string", "pattern": "(a)\\1"})J", "a reference to a group"},
      {R"J({"type": "string", "pattern": "\\bx"})J", "a border of words"},
      {R"J({"type": "string", "pattern": "(^a)"})J", "an anchor that is not at an end"},
      {R"J({"type": "string", "pattern": "a{3,2}"})J", "a repetition ends before it begins"},
      {R"J({"type": "string", "pattern": "(a"})J", "a parenthesis is not closed"},
      {R"J({"type": "string", "pattern": "a)"})J", "a parenthesis is closed that was not opened"},
      {R"J({"type": "string", "pattern": "*"})J", "there is nothing to repeat"},
      {R"J({"type": "string", "pattern": "a", "maxLength": 3})J", "only one can be kept"},
      {R"J({"$ref": "https://example.org/x"})J", "leaves the schema"},
      {R"J({"$ref": "#/$defs/x"})J", "points to nothing"},
      {R"J({"$ref": "#"})J", "ever ends"},
      {R"J({"allOf": [{"$ref": "#"}]})J", "lead back to themselves"},
      {R"J({"allOf": [{"type": "string"}, {"type": "null"}]})J", "contradict each other in 'type'"},
      {R"J({"allOf": [{"pattern": "a"}, {"pattern": "b"}]})J", "'pattern' stands in two schemas"},
      {R"J({"allOf": [{"additionalProperties": false}, {"properties": {"a": {}}}]})J",
       "'additionalProperties' stands in two"},
      {R"J({"oneOf": [{"type": "integer"}, {"type": "number"}]})J", "both oneOf/0 and oneOf/1 may accept a value"},
      {R"J({"anyOf": []})J", "anyOf is no list of schemas"},
      {R"J({"properties": {"a": {"$ref": "#"}}, "required": ["a"]})J", "ever ends"},
      {R"J({"required": ["a"], "properties": {}, "additionalProperties": false})J", "'a' is required, and"},
      {R"J({"type": "array", "minItems": 3, "maxItems": 2})J", "minItems is 3 and maxItems is 2"},
      {R"J({"type": "array", "minItems": -1})J", "minItems is -1"},
      {R"J({"type": "integer", "minimum": 5, "maximum": 4})J", "no integer is from 5 to 4"},
      {R"J({"type": "integer", "minimum": "x"})J", "minimum is \"x\""},
      {R"J({"type": "string", "maxLength": 1000000})J", "more than 524288 nodes"},
      {R"J({"properties": 3})J", "properties is no object"},
      {"false", "the schema 'false' accepts nothing"},
      {"3", "found number, expected a schema"},
      {"{", "s"},
  };
  for (const auto& [schema, part] : cases)
    EXPECT_NE(refusal(schema).find(part), std::string::npos) << schema << "\n" << refusal(schema);
}

// Merging doubles what it copies: 2^40 in all. It ends in an error, and soon.
TEST(JsonSchema, HostileSchemasEndInAnError) {
  std::string defs = R"({"$ref": "#/$defs/d0", "$defs": {)";
  for (int i = 0; i < 40; ++i)
    defs += fmt::format(R"("d{0}": {{"type": "object", "properties": )"
                        R"({{"a": {{"$ref": "#/$defs/d{1}", "title": "x", "type": "object"}},)"
                        R"( "b": {{"$ref": "#/$defs/d{1}", "type": "object"}}}}}}, )", i, i + 1);
  EXPECT_NE(refusal(defs + R"("d40": {"type": "object"}}})").find("too large"), std::string::npos);
  std::string chain = R"({"$ref": "#/$defs/d0", "$defs": {)";
  for (int i = 0; i < 5000; ++i) chain += fmt::format(R"("d{}": {{"$ref": "#/$defs/d{}"}}, )", i, i + 1);
  EXPECT_EQ(refusal(chain + R"("d5000": {"type": "object"}}})"), "accepted");
  EXPECT_NE(refusal(std::string(5000, '[')), "accepted");
}

// The little validator of the tests: as the standard words it, for what random schemas below use.
bool valid(const OrderedJson& v, const OrderedJson& s, const OrderedJson& root) {
  if (s.is_boolean()) return s.get<bool>();
  if (s.contains("$ref")) return valid(v, root["$defs"][s["$ref"].get<std::string>().substr(8)], root);
  if (s.contains("anyOf"))
    return std::any_of(s["anyOf"].begin(), s["anyOf"].end(), [&](const OrderedJson& x) { return valid(v, x, root); });
  if (s.contains("enum") && std::find(s["enum"].begin(), s["enum"].end(), v) == s["enum"].end()) return false;
  if (s.contains("type")) {
    const std::string t = s["type"];
    if (!(t == v.type_name() || (t == "integer" && v.is_number_integer()))) return false;
  }
  if (v.is_number_integer() && (v < s.value("minimum", -1e18) || v > s.value("maximum", 1e18))) return false;
  if (v.is_string()) {
    const auto text = v.get<std::string>();
    const auto length = std::count_if(text.begin(), text.end(), [](char c) { return (uint8_t(c) & 0xC0) != 0x80; });
    if (length < s.value("minLength", 0) || length > s.value("maxLength", 1 << 20)) return false;
    if (s.contains("pattern") && !std::regex_search(text, std::regex(s["pattern"].get<std::string>()))) return false;
  }
  if (v.is_array()) {
    if (int(v.size()) < s.value("minItems", 0) || int(v.size()) > s.value("maxItems", 1 << 20)) return false;
    for (const OrderedJson& x : v)
      if (s.contains("items") && !valid(x, s["items"], root)) return false;
  }
  if (v.is_object()) {
    for (const OrderedJson& name : s.value("required", OrderedJson::array()))
      if (!v.contains(name.get<std::string>())) return false;
    for (const auto& [name, x] : v.items()) {
      const bool declared = s.contains("properties") && s["properties"].contains(name);
      const OrderedJson other = s.value("additionalProperties", OrderedJson(true));
      if (!valid(x, declared ? s["properties"][name] : other, root)) return false;
    }
  }
  return true;
}

OrderedJson random_schema(const Rng& rng, uint64_t& at, int depth) {
  const auto pick = [&](uint64_t n) { return rng.below(at++, n); };
  const auto n = [&](uint64_t max) { return int64_t(pick(max)); };
  switch (pick(depth > 0 ? 9 : 5)) {
    case 0: return {{"type", "integer"}, {"minimum", n(50) - 30}, {"maximum", n(500) + 20}};
    case 1: return {{"type", "string"}, {"minLength", n(3)}, {"maxLength", 3 + n(4)}};
    case 2: return {{"enum", {"x", 1, nullptr, "é\n"}}};
    case 3: return {{"type", "string"}, {"pattern", "^[ab]{1,3}(c|d)?[e-z.]$"}};
    case 4: return {{"type", pick(2) ? "boolean" : "null"}};
    case 5: return {{"anyOf", {random_schema(rng, at, depth - 1), random_schema(rng, at, depth - 1)}}};
    case 6: return {{"$ref", "#/$defs/r"}};
    case 7:
      return {{"type", "array"}, {"items", random_schema(rng, at, depth - 1)}, {"minItems", n(2)},
              {"maxItems", 2 + n(3)}};
    default: break;
  }
  OrderedJson s = {{"type", "object"}, {"properties", OrderedJson::object()}, {"required", OrderedJson::array()}};
  for (const char* name : {"a", "ab", "c\"", "d"}) {
    if (pick(2)) s["properties"][name] = random_schema(rng, at, depth - 1);
    if (s["properties"].contains(name) && pick(2)) s["required"].push_back(name);
  }
  if (pick(2)) s["additionalProperties"] = pick(2) ? OrderedJson(false) : random_schema(rng, at, 0);
  return s;
}

/// A random text of the grammar; nothing where it has not ended after many bytes.
std::optional<std::string> random_text(const Grammar& grammar, const Rng& rng) {
  FrameTable frames;
  GrammarStepper stepper(grammar);
  GrammarState state = stepper.begin(frames);
  std::string text;
  for (uint64_t i = 0; i < 600; ++i) {
    std::vector<uint8_t> next;  // ends of strings, lists and objects more often, so that texts end
    for (const GrammarItem& item : state.items) {
      const Grammar::Node& node = grammar.node(item.node);
      next.push_back(uint8_t(node.low + rng.below(3 * i, uint64_t(node.high - node.low) + 1)));
      for (int k = 0; k < 6 && node.low == node.high && (node.low == '"' || node.low == ']' || node.low == '}'); ++k)
        next.push_back(node.low);
    }
    if (next.empty() || (state.may_end && rng.below(3 * i + 1, 2) == 0)) return text;
    text += char(next[rng.below(3 * i + 2, next.size())]);
    state = stepper.after(state, uint8_t(text.back()), frames);
  }
  return std::nullopt;
}

TEST(JsonSchema, RandomTextsOfRandomSchemasAreValid) {
  int texts = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const Rng rng(seed, Purpose::kTest);
    uint64_t at = 0;
    OrderedJson schema = random_schema(rng, at, 3);
    schema["$defs"] = OrderedJson::parse(
        R"({"r": {"type": "array", "items": {"anyOf": [{"$ref": "#/$defs/r"}, {"type": "null"}]}}})");
    const auto grammar = json_schema_grammar(schema.dump(), "s");
    for (uint64_t i = 0; i < 10; ++i) {
      const auto text = random_text(*grammar, Rng(seed, Purpose::kTest, 1 + i));
      if (!text) continue;
      ++texts;
      const OrderedJson value = OrderedJson::parse(*text, nullptr, false);
      ASSERT_FALSE(value.is_discarded()) << *text << "\n" << schema.dump();
      EXPECT_TRUE(valid(value, schema, schema)) << *text << "\n" << schema.dump();
    }
  }
  EXPECT_GT(texts, 2000);
}

TEST(JsonSchema, AnyJson) {
  EXPECT_EQ(follow(*json_value_grammar(), R"([1, {"a": "b"}])"), "yes");
  EXPECT_EQ(follow(*json_object_grammar(), R"({"a": [true]})"), "yes");
  EXPECT_EQ(follow(*json_object_grammar(), "[]"), "no at 0");
}

}  // namespace
}  // namespace espalier
