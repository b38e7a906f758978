// Tool calls apart from text, in the ways that models were taught to write them:
//   Hermes, Qwen:  <tool_call>\n{"name": "f", "arguments": {...}}\n</tool_call>, repeated
//   Llama 3:       {"name": "f", "parameters": {...}}, the whole answer; ";" between several, <|python_tag|> before
//   Mistral:       [TOOL_CALLS][{"name": "f", "arguments": {...}}, ...], or [TOOL_CALLS]f[ARGS]{...} in newer ones
// or without any tags (serve/bare_calls.h), where the whole answer is calls of functions that the request named.
// Text comes in any pieces. A call is given as a whole when its JSON ends (one without tags: when the answer does).
// What turns out to be no call (broken JSON, no name) is given as the text that it is, so nothing is ever lost.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/bare_calls.h"
#include "serve/json_extent.h"

namespace espalier {

enum class ToolFormat { kHermes, kLlama3, kMistral, kBare };

/// The way in which a chat template writes calls; nothing where it does not mention any.
std::optional<ToolFormat> tool_format(std::string_view chat_template);

/// What begins a call in this way; empty where nothing needs to.
std::string_view tool_opener(ToolFormat format);

struct ToolPiece {
  std::string content;
  std::vector<FoundCall> calls;
};

/// What is looked for in an answer.
struct ToolReading {
  ToolFormat format = ToolFormat::kBare;
  std::vector<std::string> names;  ///< the functions whose calls are taken without tags too
  bool one = false;                ///< the answer ends with its first call
};

class ToolCallSplitter {
 public:
  /// `names` as in ToolReading.
  explicit ToolCallSplitter(ToolFormat format, std::vector<std::string> names = {});

  /// What the text sets free. White space between calls, and between text and a call, is dropped.
  ToolPiece push(std::string_view text);
  /// What was held back.
  ToolPiece finish();

 private:
  enum class State { kBegin, kText, kOpened, kName, kArguments, kJson, kAfter };
  void take(ToolPiece& piece, std::string_view text);
  bool step(ToolPiece& piece);
  bool step_text(ToolPiece& piece);
  bool step_opened(ToolPiece& piece);
  bool step_name();
  bool step_arguments(ToolPiece& piece);
  bool step_json(ToolPiece& piece);
  bool step_after();
  void take_raw(size_t bytes);
  bool begin_json();
  bool give_up(ToolPiece& piece);
  void say(ToolPiece& piece, std::string text);

  const ToolFormat format_;
  const std::vector<std::string_view> openers_;
  const std::string_view closer_;
  State state_ = State::kBegin;
  BareCalls bare_;         // while the answer may be calls without tags
  std::string held_;       // not looked at yet
  std::string raw_;        // of the call that may be forming, from its opener on
  std::string name_;       // of Mistral's newer way
  size_t json_begin_ = 0;  // in raw_
  JsonExtent extent_;
  bool said_something_ = false, called_ = false;
};

}  // namespace espalier
