// Reasoning and tool calls apart from text, with every text cut at every place: the pieces together are always the
// same.
#include <gtest/gtest.h>

#include "serve/think_splitter.h"
#include "serve/tool_calls.h"

namespace espalier {
namespace {

ThinkPiece& operator+=(ThinkPiece& all, const ThinkPiece& piece) {
  all.reasoning += piece.reasoning;
  all.content += piece.content;
  return all;
}

ToolPiece& operator+=(ToolPiece& all, const ToolPiece& piece) {
  all.content += piece.content;
  all.calls.insert(all.calls.end(), piece.calls.begin(), piece.calls.end());
  return all;
}

/// All that a splitter gives for a text cut at two places.
template <class Piece, class Splitter>
Piece split(Splitter splitter, const std::string& text, size_t first, size_t second) {
  Piece all;
  all += splitter.push(std::string_view(text).substr(0, first));
  all += splitter.push(std::string_view(text).substr(first, second - first));
  all += splitter.push(std::string_view(text).substr(second));
  return all += splitter.finish();
}

void expect_thought(const std::string& text, const std::string& reasoning, const std::string& content,
                    bool inside = false) {
  for (size_t first = 0; first <= text.size(); ++first)
    for (size_t second = first; second <= text.size(); ++second) {
      const auto all = split<ThinkPiece>(ThinkSplitter(inside), text, first, second);
      ASSERT_EQ(all.reasoning, reasoning) << text << " at " << first << ", " << second;
      ASSERT_EQ(all.content, content) << text << " at " << first << ", " << second;
    }
}

TEST(ThinkSplitter, EverySplitPoint) {
  expect_thought("<think>\nhm  hm\n</think>\n\nyes", "hm  hm", "yes");
  expect_thought(" \n<think>a</think>b", "a", "b");
  expect_thought("<think></think>\n b ", "", "b ");
  expect_thought("hm</think>yes", "hm", "yes", true);
  expect_thought("plain text ", "", "plain text ");
  expect_thought(" a<think>b</think>", "", " a<think>b</think>");
  expect_thought("<thin", "", "<thin");
  expect_thought("<thinking>", "", "<thinking>");
  expect_thought("<think>never ends </thin ", "never ends </thin", "");
  expect_thought("<think>a < b </think>c</think>", "a < b", "c</think>");
  expect_thought("", "", "");
  expect_thought("  ", "", "  ");
}

TEST(ThinkSplitter, GivesWhatIsSure) {
  ThinkSplitter splitter;
  EXPECT_EQ(splitter.push("<think>one two").reasoning, "one two");
  EXPECT_EQ(splitter.push(" <").reasoning, "");
  EXPECT_EQ(splitter.push("b").reasoning, " <b");
  EXPECT_EQ(splitter.push("</think>").reasoning, "");
  EXPECT_EQ(splitter.push("c").content, "c");
  EXPECT_TRUE(opens_thinking("<|assistant|><think>\n"));
  EXPECT_FALSE(opens_thinking("<think></think>"));
  EXPECT_FALSE(opens_thinking(""));
}

using Calls = std::vector<std::pair<std::string, std::string>>;

const std::vector<std::string> kNames = {"f", "g"};

void expect_calls(ToolFormat format, const std::string& text, const std::string& content, const Calls& calls) {
  for (size_t first = 0; first <= text.size(); ++first)
    for (size_t second = first; second <= text.size(); second += 3) {
      const auto all = split<ToolPiece>(ToolCallSplitter(format, kNames), text, first, second);
      Calls found;
      for (const FoundCall& call : all.calls) found.emplace_back(call.name, call.arguments);
      ASSERT_EQ(all.content, content) << text << " at " << first << ", " << second;
      ASSERT_EQ(found, calls) << text << " at " << first << ", " << second;
    }
}

TEST(ToolCallSplitter, Hermes) {
  const auto expect = [](const std::string& text, const std::string& content, const Calls& calls) {
    expect_calls(ToolFormat::kHermes, text, content, calls);
  };
  expect("<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"}</tool_call>\"}}\n</tool_call>", "",
         {{"f", "{\"a\":\"}</tool_call>\"}"}});
  expect("Let me see.\n<tool_call>{\"name\":\"f\"}</tool_call>\n<tool_call>{\"name\":\"g\"}</tool_call>\n",
         "Let me see.", {{"f", "{}"}, {"g", "{}"}});
  expect("<tool_call>{\"name\":\"f\",\"arguments\":\"{\\\"x\\\": 1}\"}", "", {{"f", "{\"x\": 1}"}});
  expect("<tool_call>{\"name\":\"f\"}</tool_call> done ", "done ", {{"f", "{}"}});
  expect("a < b, <tool", "a < b, <tool", {});
  expect("<tool_call>f(x)</tool_call>", "<tool_call>f(x)</tool_call>", {});
  expect("<tool_call>{\"name\": 5}</tool_call>", "<tool_call>{\"name\": 5}</tool_call>", {});
  expect("<tool_call>{\"name\": \"f\", \"argu", "<tool_call>{\"name\": \"f\", \"argu", {});
  expect("<tool_call>{oops}</tool_call> <tool_call>{\"name\":\"g\"}</tool_call>", "<tool_call>{oops}</tool_call>",
         {{"g", "{}"}});
}

TEST(ToolCallSplitter, Llama3) {
  const auto expect = [](const std::string& text, const std::string& content, const Calls& calls) {
    expect_calls(ToolFormat::kLlama3, text, content, calls);
  };
  expect("{\"name\": \"f\", \"parameters\": {\"a\": 1}}", "", {{"f", "{\"a\":1}"}});
  expect(" {\"name\":\"f\"}; {\"name\":\"g\"}\n", "", {{"f", "{}"}, {"g", "{}"}});
  expect("<|python_tag|>{\"name\":\"f\"}", "", {{"f", "{}"}});
  expect("{\"answer\": 42} ", "{\"answer\": 42} ", {});
  expect("It is {\"name\":\"f\"}", "It is {\"name\":\"f\"}", {});
}

TEST(ToolCallSplitter, Mistral) {
  const auto expect = [](const std::string& text, const std::string& content, const Calls& calls) {
    expect_calls(ToolFormat::kMistral, text, content, calls);
  };
  expect("[TOOL_CALLS][{\"name\":\"f\",\"arguments\":{\"a\":[1]}}, {\"name\":\"g\"}]", "",
         {{"f", "{\"a\":[1]}"}, {"g", "{}"}});
  expect("Well. [TOOL_CALLS] {\"name\":\"f\"}", "Well.", {{"f", "{}"}});
  expect("[TOOL_CALLS]f_1[ARGS]{\"a\": 1}[TOOL_CALLS]g{}", "", {{"f_1", "{\"a\": 1}"}, {"g", "{}"}});
  expect("[TOOL_CALLS][1, 2]", "[TOOL_CALLS][1, 2]", {});
  expect("[TOOL_CALLS]f[ARG", "[TOOL_CALLS]f[ARG", {});
  expect("[TOOL_CALLS]f[ARGUE]", "[TOOL_CALLS]f[ARGUE]", {});
  expect("[TOOL_CALLS]f[ARGS]x{}[TOOL_CALLS]{\"name\":\"g\"}", "[TOOL_CALLS]f[ARGS]x{}", {{"g", "{}"}});
}

// As Qwen2.5-Coder writes them, whose template asks for tags.
TEST(ToolCallSplitter, CallsWithoutTags) {
  for (const ToolFormat format : {ToolFormat::kHermes, ToolFormat::kLlama3, ToolFormat::kMistral, ToolFormat::kBare}) {
    const auto expect = [&](const std::string& text, const std::string& content, const Calls& calls) {
      expect_calls(format, text, content, calls);
    };
    expect("{\"name\": \"f\", \"arguments\": {\"a\": \"}\"}}", "", {{"f", "{\"a\":\"}\"}"}});
    expect("\n```json\n{\"name\":\"f\"}\n```\n", "", {{"f", "{}"}});
    expect("```\n[{\"name\":\"f\"}, {\"name\":\"g\"}]\n", "", {{"f", "{}"}, {"g", "{}"}});
    expect("{\"name\":\"f\"}\n{ \"parameters\": {}, \"name\":\"g\"}", "", {{"f", "{}"}, {"g", "{}"}});
    // Texts that begin alike.
    for (const char* text : {"{\"name\":\"h\", \"arguments\": {}}", "{\"name\":\"f\"} is a call", "{\"name\":\"f\"",
                             "```json\n{\"name\":\"f\"}\n``` shows it", "```python\nf()\n```", "{\"name\": 1}", "``",
                             "```json", "[{\"name\":\"f\"}, 1]", "{\"named\":\"f\"}", "{}", "[]", "{\"name\":\"f\"}}",
                             "It is {\"name\":\"f\"}", "{\"name\":\"f\", \"arguments\": 5}", "`f` ", ";"})
      expect(text, text, {});
  }
  expect_calls(ToolFormat::kHermes, "{\"name\":\"f\"}<tool_call>{\"name\":\"h\"}</tool_call>", "{\"name\":\"f\"}",
               {{"h", "{}"}});
}

TEST(ToolCallSplitter, HoldsBackOnlyWhatMayBeACall) {
  ToolCallSplitter splitter(ToolFormat::kHermes, kNames);
  EXPECT_EQ(splitter.push("{\n  \"na").content, "");
  EXPECT_EQ(splitter.push("tion\": \"Chile\"").content, "{\n  \"nation\": \"Chile\"");
  ToolCallSplitter without_tools(ToolFormat::kHermes);
  EXPECT_EQ(without_tools.push("{\"name\"").content, "{\"name\"");
}

TEST(ToolCallSplitter, GivesWhatIsSure) {
  ToolCallSplitter splitter(ToolFormat::kHermes);
  EXPECT_EQ(splitter.push("one two ").content, "one two");
  EXPECT_EQ(splitter.push("three<").content, " three");
  EXPECT_EQ(splitter.push("b>").content, "<b>");
  EXPECT_TRUE(splitter.push("<tool_call>{\"name\": \"f\"").calls.empty());
  EXPECT_EQ(splitter.push("}").calls.size(), 1u);
}

TEST(ToolCallSplitter, KnowsTheTemplate) {
  EXPECT_EQ(tool_format("{% if tools %}<tool_call>{% endif %}"), ToolFormat::kHermes);
  EXPECT_EQ(tool_format("[TOOL_CALLS]"), ToolFormat::kMistral);
  EXPECT_EQ(tool_format("<|python_tag|>"), ToolFormat::kLlama3);
  EXPECT_EQ(tool_format("{{ messages }}"), std::nullopt);
}

}  // namespace
}  // namespace espalier
