#include "serve/bare_calls.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "base/json_value.h"

namespace espalier {
namespace {

constexpr std::string_view kFence = "```";

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

/// The text of an object of arguments; nothing where it is none.
std::optional<std::string> arguments_text(const OrderedJson& call) {
  for (const char* key : {"arguments", "parameters"}) {
    const auto found = call.find(key);
    if (found == call.end()) continue;
    if (found->is_object()) return found->dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
    // Some models write the arguments as OpenAI's API does, as JSON in a string.
    if (found->is_string()) {
      const std::string text = found->get<std::string>();
      if (parse_ordered_json(text, "a tool call's arguments").is_object()) return text;
    }
    return std::nullopt;
  }
  return "{}";
}

/// Whether JSON that begins so, blanks aside, may be a call: other JSON is not held back to its end.
bool may_be_call(std::string_view head) {
  if (head.starts_with('[')) head.remove_prefix(1);
  return std::ranges::any_of(std::array{R"({"name":)", R"({"arguments":)", R"({"parameters":)"},
                             [&](std::string_view begin) {
                               return head.starts_with(begin) || begin.starts_with(head);
                             });
}

constexpr size_t kHeadBytes = 16;  // as much as may_be_call looks at

}  // namespace

std::vector<FoundCall> calls_in_json(const std::string& text) {
  try {
    const OrderedJson json = parse_ordered_json(text, "a tool call");
    std::vector<FoundCall> calls;
    for (const OrderedJson& call : json.is_array() ? json : OrderedJson::array({json})) {
      if (!call.is_object() || !call.contains("name") || !call["name"].is_string()) return {};
      std::optional<std::string> arguments = arguments_text(call);
      if (!arguments) return {};
      calls.push_back({call["name"].get<std::string>(), *std::move(arguments)});
    }
    return calls;
  } catch (const Error&) {  // the edge: what a model writes may be no JSON; it is then text
    return {};
  }
}

bool BareCalls::push(std::string_view text) {
  taken_ += text;
  return !names_.empty() && std::ranges::all_of(text, [&](char c) { return step(c); });
}

bool BareCalls::step(char c) {
  switch (state_) {
    case State::kBetween: return step_between(c);
    case State::kTicks:
      part_ += c;
      if (!kFence.starts_with(part_)) return false;
      if (part_ == kFence) {
        fenced_ = !fenced_;
        part_.clear();
        state_ = fenced_ ? State::kLanguage : State::kBetween;
      }
      return true;
    case State::kLanguage:
      if (is_blank(c) || c == '{' || c == '[') {
        state_ = State::kBetween;
        return (part_.empty() || part_ == "json") && step_between(c);
      }
      part_ += c;
      return std::string_view("json").starts_with(part_);
    default: return step_json(c);
  }
}

bool BareCalls::step_between(char c) {
  if (is_blank(c) || (c == ';' && !calls_.empty())) return true;
  part_.clear();
  if (c == '`') {
    state_ = State::kTicks;
    part_ = c;
    return true;
  }
  if (c != '{' && c != '[') return false;
  state_ = State::kJson;
  extent_ = {};
  head_.clear();
  return step_json(c);
}

bool BareCalls::step_json(char c) {
  part_ += c;
  if (head_.size() < kHeadBytes && !is_blank(c)) {
    head_ += c;
    if (!may_be_call(head_)) return false;
  }
  if (!extent_.take(c)) return true;
  state_ = State::kBetween;
  const std::vector<FoundCall> found = calls_in_json(part_);
  calls_.insert(calls_.end(), found.begin(), found.end());
  return !found.empty() && std::ranges::all_of(found, [&](const FoundCall& call) {
    return std::ranges::find(names_, call.name) != names_.end();
  });
}

std::vector<FoundCall> BareCalls::finish() {
  // A fence that was opened and not closed is whole but for its end; a half JSON is not.
  return state_ == State::kBetween ? std::exchange(calls_, {}) : std::vector<FoundCall>{};
}

}  // namespace espalier
