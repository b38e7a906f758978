// JSON Schema: any bytes are a grammar or refused; and a text of the grammar is JSON. Bytes of the input choose the
// text.
#include <cstdlib>

#include "base/error.h"
#include "base/json.h"
#include "base/json_value.h"
#include "fuzz.h"
#include "text/grammar_state.h"
#include "text/json_schema.h"

namespace {

void write_text(const espalier::Grammar& grammar, std::string_view choices) {
  espalier::FrameTable frames;
  espalier::GrammarStepper stepper(grammar);
  espalier::GrammarState state = stepper.begin(frames);
  std::string text;
  for (size_t i = 0; i < 200 && !state.items.empty(); ++i) {
    const size_t choice = choices.empty() ? 0 : uint8_t(choices[i % choices.size()]);
    const auto& node = grammar.node(state.items[choice % state.items.size()].node);
    text += char(node.low + choice % (size_t(node.high - node.low) + 1));
    stepper.set_budget(1 << 20);
    state = stepper.after(state, uint8_t(text.back()), frames);
    if (state.dead()) std::abort();
    if (state.may_end && !espalier::OrderedJson::accept(text)) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  try {
    write_text(*espalier::json_schema_grammar(input, "input"), input);
  } catch (const espalier::Error&) {  // the edge: an Error is a right answer to bad input
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {
      R"({"type": "object", "properties": {"a": {"type": "integer", "minimum": -5, "maximum": 120}, "b": )"
      R"({"type": "array", "items": {"enum": ["x", 1, null]}, "minItems": 1, "maxItems": 3}}, "required": ["a"], )"
      R"("additionalProperties": false})",
      R"({"$ref": "#/$defs/n", "$defs": {"n": {"properties": {"v": {"type": "string", "maxLength": 3}, "n": {"anyOf":)"
      R"( [{"$ref": "#/$defs/n"}, {"type": "null"}]}}, "required": ["v", "n"]}}})",
      R"({"allOf": [{"properties": {"a": {"type": "number"}}}, )"
      R"({"properties": {"a": {"type": "integer"}}, "title": "t"}]})",
      R"({"type": ["string", "null"], "pattern": "^[a-f\\d]{2,4}(-|\\.)?(x|y\\u00e9)*$"})",
      R"({"oneOf": [{"format": "date-time", "type": "string"}, {"type": "boolean"}, {"const": {"k": [1.5]}}]})",
      R"({"prefixItems": [{"const": 1}, {}], "items": {"type": "null"}, "minItems": 1, "maxItems": 4})",
      R"({"properties": {"ab": {}}, "additionalProperties": {"type": "string", "minLength": 1}})",
      R"({"type": "integer", "exclusiveMinimum": 9007199254740993, "maximum": 9.1e18})",
      "true",
  };
}
