#include "serve/tool_calls.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/json_value.h"
#include "serve/partial_match.h"

namespace espalier {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";
constexpr std::string_view kArgs = "[ARGS]";

std::vector<std::string_view> openers_of(ToolFormat format) {
  if (format == ToolFormat::kLlama3) return {"<|python_tag|>"};
  if (format == ToolFormat::kBare) return {};
  return {tool_opener(format)};
}

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
}

/// The calls that JSON text stands for, where the function's name stood before it or not.
std::vector<FoundCall> calls_in(const std::string& text, const std::string& name) {
  if (name.empty()) return calls_in_json(text);
  try {
    if (parse_ordered_json(text, "a tool call's arguments").is_object()) return {{name, text}};
  } catch (const Error&) {  // the edge: what a model writes may be no JSON; it is then text
  }
  return {};
}

}  // namespace

std::optional<ToolFormat> tool_format(std::string_view chat_template) {
  const auto mentions = [&](std::string_view word) { return chat_template.find(word) != std::string_view::npos; };
  if (mentions("<tool_call>")) return ToolFormat::kHermes;
  if (mentions("[TOOL_CALLS]")) return ToolFormat::kMistral;
  if (mentions("<|python_tag|>") || (mentions("tool_calls") && mentions("\"parameters\"")))
    return ToolFormat::kLlama3;
  return std::nullopt;
}

std::string_view tool_opener(ToolFormat format) {
  return format == ToolFormat::kHermes ? "<tool_call>" : format == ToolFormat::kMistral ? "[TOOL_CALLS]" : "";
}

ToolCallSplitter::ToolCallSplitter(ToolFormat format, std::vector<std::string> names)
    : format_(format),
      openers_(openers_of(format)),
      closer_(format == ToolFormat::kHermes ? "</tool_call>" : format == ToolFormat::kLlama3 ? ";" : ""),
      bare_(std::move(names)) {}

ToolPiece ToolCallSplitter::push(std::string_view text) {
  ToolPiece piece;
  if (state_ != State::kBegin) {
    take(piece, text);
  } else if (!text.empty() && !bare_.push(text)) {
    state_ = State::kText;
    take(piece, bare_.taken());
  }
  return piece;
}

void ToolCallSplitter::take(ToolPiece& piece, std::string_view text) {
  held_.append(text);
  while (step(piece)) {
  }
}

/// Moves on; false where more text is needed.
bool ToolCallSplitter::step(ToolPiece& piece) {
  switch (state_) {
    case State::kBegin:
    case State::kText: return step_text(piece);
    case State::kOpened: return step_opened(piece);
    case State::kName: return step_name();
    case State::kArguments: return step_arguments(piece);
    case State::kJson: return step_json(piece);
    default: return step_after();
  }
}

void ToolCallSplitter::say(ToolPiece& piece, std::string text) {
  if (called_ && !said_something_) text.erase(0, std::min(text.find_first_not_of(kBlanks), text.size()));
  if (text.empty()) return;
  said_something_ = true;
  piece.content += text;
}

void ToolCallSplitter::take_raw(size_t bytes) {
  raw_.append(held_, 0, bytes);
  held_.erase(0, bytes);
}

bool ToolCallSplitter::begin_json() {
  json_begin_ = raw_.size();
  extent_ = {};
  state_ = State::kJson;
  return true;
}

/// What seemed to be a call is text.
bool ToolCallSplitter::give_up(ToolPiece& piece) {
  say(piece, std::exchange(raw_, {}));
  name_.clear();
  state_ = State::kText;
  return true;
}

bool ToolCallSplitter::step_text(ToolPiece& piece) {
  size_t opener = std::string::npos, length = 0, partial = 0;
  for (const std::string_view candidate : openers_) {
    const size_t found = held_.find(candidate);
    if (found < opener) {
      opener = found;
      length = candidate.size();
    }
    partial = std::max(partial, partial_match(held_, candidate));
  }
  const size_t end = opener != std::string::npos ? opener : held_.size() - partial;
  // Blanks wait: they are dropped if a call follows them.
  const size_t said = held_.substr(0, end).find_last_not_of(kBlanks) + 1;
  say(piece, held_.substr(0, said));
  if (opener == std::string::npos) {
    held_.erase(0, said);
    return false;
  }
  held_.erase(0, said);
  take_raw(opener - said + length);
  state_ = State::kOpened;
  return true;
}

bool ToolCallSplitter::step_opened(ToolPiece& piece) {
  take_raw(std::min(held_.find_first_not_of(kBlanks), held_.size()));
  if (held_.empty()) return false;
  const bool mistral = format_ == ToolFormat::kMistral;
  if (held_[0] == '{' || (mistral && held_[0] == '[')) return begin_json();
  if (!mistral || !is_name_char(held_[0])) return give_up(piece);
  name_.clear();
  state_ = State::kName;
  return true;
}

bool ToolCallSplitter::step_name() {
  while (!held_.empty() && is_name_char(held_[0])) {
    name_ += held_[0];
    take_raw(1);
  }
  if (held_.size() < kArgs.size() && kArgs.starts_with(held_)) return false;
  if (held_.starts_with(kArgs)) take_raw(kArgs.size());
  state_ = State::kArguments;
  return true;
}

bool ToolCallSplitter::step_arguments(ToolPiece& piece) {
  if (held_.empty()) return false;
  return held_[0] == '{' ? begin_json() : give_up(piece);
}

bool ToolCallSplitter::step_json(ToolPiece& piece) {
  size_t n = 0;
  bool whole = false;
  while (n < held_.size() && !whole) whole = extent_.take(held_[n++]);
  take_raw(n);
  if (!whole) return false;
  std::vector<FoundCall> calls = calls_in(raw_.substr(json_begin_), std::exchange(name_, {}));
  if (calls.empty()) return give_up(piece);
  for (FoundCall& call : calls) piece.calls.push_back(std::move(call));
  raw_.clear();
  called_ = true;
  said_something_ = false;  // blanks behind a call are dropped as those before it
  state_ = State::kAfter;
  return true;
}

bool ToolCallSplitter::step_after() {
  held_.erase(0, std::min(held_.find_first_not_of(kBlanks), held_.size()));
  const bool closes = !closer_.empty() && held_.starts_with(closer_);
  if (closes) held_.erase(0, closer_.size());
  else if (held_.empty() || (held_.size() < closer_.size() && closer_.starts_with(held_))) return false;
  state_ = State::kText;
  return true;
}

ToolPiece ToolCallSplitter::finish() {
  ToolPiece piece;
  if (state_ == State::kBegin) {
    piece.calls = bare_.finish();
    state_ = State::kText;
    if (piece.calls.empty()) take(piece, bare_.taken());
  }
  if (state_ != State::kText && state_ != State::kAfter) give_up(piece);
  if (state_ == State::kText) say(piece, held_);
  held_.clear();
  return piece;
}

}  // namespace espalier
