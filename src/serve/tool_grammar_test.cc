// Forced calls: the texts that the grammar takes, and that the splitter reads each as the calls that it is.
#include "serve/tool_grammar.h"

#include <gtest/gtest.h>

#include "base/json_value.h"
#include "text/grammar_case.h"

namespace espalier {
namespace {

const char* kTools = R"([
  {"type": "function", "function": {"name": "f", "parameters": {
    "type": "object", "properties": {"a": {"$ref": "#/$defs/one"}}, "required": ["a"], "additionalProperties": false,
    "$defs": {"one": {"enum": ["x", "y"]}}}}},
  {"type": "function", "function": {"name": "g", "description": "takes nothing"}}])";

std::shared_ptr<const Grammar> grammar(const ForcedCall& call, const char* tools = kTools) {
  return tool_call_grammar(describe_forced_call(call, parse_ordered_json(tools, "tools")));
}

std::string refusal(const char* tools) {
  try {
    grammar({}, tools);
  } catch (const Error& e) {  // the edge: the message is what is tested
    return e.what();
  }
  return "accepted";
}

void expect_read(ToolFormat format, const std::string& text, size_t calls) {
  ToolCallSplitter splitter(format, {"f", "g"});
  std::vector<FoundCall> found = splitter.push(text).calls;
  for (FoundCall& call : splitter.finish().calls) found.push_back(std::move(call));
  EXPECT_EQ(found.size(), calls) << text;
}

TEST(ToolGrammar, WritesCallsAsEachTemplateDoes) {
  struct Case {
    ForcedCall call;
    const char *one, *two;
  };
  const Case cases[] = {
      {{.format = ToolFormat::kHermes, .several = true},
       "<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>",
       "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"x\"}}\n</tool_call>\n<tool_call>\n"
       "{\"name\": \"g\", \"arguments\": {}}\n</tool_call>"},
      {{.format = ToolFormat::kLlama3, .several = true}, "{\"name\": \"g\", \"parameters\": {}}",
       "{\"name\": \"f\", \"parameters\": {\"a\": \"y\"}}; {\"name\": \"g\", \"parameters\": {}}"},
      {{.format = ToolFormat::kMistral, .several = true}, "[TOOL_CALLS][{\"name\": \"g\", \"arguments\": {}}]",
       "[TOOL_CALLS][{\"name\": \"g\", \"arguments\": {}}, {\"name\": \"f\", \"arguments\": {\"a\":\"x\"}}]"},
      {{.format = ToolFormat::kMistral, .opener = false, .several = true}, "[{\"name\": \"g\", \"arguments\": {}}]",
       "[{\"name\": \"g\", \"arguments\": {}}, {\"name\": \"f\", \"arguments\": {\"a\":\"x\"}}]"},
      {{.format = ToolFormat::kBare, .several = true}, "{\"name\": \"g\", \"arguments\": {}}",
       "{\"name\": \"g\", \"arguments\": {}}\n{\"name\": \"f\", \"arguments\": {\"a\": \"x\"}}"}};
  for (Case c : cases) {
    EXPECT_EQ(follow(*grammar(c.call), c.one), "yes") << c.one;
    EXPECT_EQ(follow(*grammar(c.call), c.two), "yes") << c.two;
    expect_read(c.call.format, c.one, 1);
    expect_read(c.call.format, c.two, 2);
    c.call.several = false;
    EXPECT_EQ(follow(*grammar(c.call), c.one), "yes") << c.one;
    EXPECT_TRUE(follow(*grammar(c.call), c.two).starts_with("no at")) << c.two;
  }
}

TEST(ToolGrammar, TakesOnlyWhatTheSchemasSay) {
  const auto call = [](const std::string& rest) { return "{\"name\": " + rest; };
  EXPECT_EQ(follow(*grammar({}), call("\"f\", \"arguments\": {\"a\": \"z\"}}")), "no at 34");
  EXPECT_EQ(follow(*grammar({}), call("\"f\", \"arguments\": {}}")), "no at 28");
  EXPECT_EQ(follow(*grammar({}), call("\"g\", \"arguments\": {\"a\"")), "no at 28");
  EXPECT_EQ(follow(*grammar({}), call("\"h\"")), "no at 10");
  EXPECT_EQ(follow(*grammar({.only = "f"}), call("\"g\"")), "no at 10");
  EXPECT_EQ(follow(*grammar({.only = "f"}), call("\"f\", \"arguments\": {\"a\": \"x\"}}")), "yes");
}

TEST(ToolGrammar, RefusesSchemasThatItCannotKeep) {
  EXPECT_NE(refusal(R"([{"function": {"name": "h", "parameters": {"type": "array"}}}])").find("function 'h'"),
            std::string::npos);
  EXPECT_NE(refusal(R"([{"function": {"name": "h", "parameters": {"properties": {"a": {"$ref": "#/x"}}}}}])")
                .find("function 'h'"),
            std::string::npos);
  EXPECT_EQ(refusal(R"([{"function": {"name": "h", "parameters": {}}}])"), "accepted");
}

}  // namespace
}  // namespace espalier
