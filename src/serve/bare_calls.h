// Tool calls without tags. Models that were shown how to write calls often leave the tags out: the whole answer is then
// one JSON object {"name": ..., "arguments": {...}}, several of them (blanks or ";" between), an array of them, or the
// same in ``` fences. So an answer is held back while it may still become that, and no longer.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/json_extent.h"

namespace espalier {

struct FoundCall {
  std::string name;
  std::string arguments;  ///< JSON text of an object
};

/// The calls that JSON text stands for: an object or an array of objects with a name and arguments (or parameters).
/// None where it is something else.
std::vector<FoundCall> calls_in_json(const std::string& text);

class BareCalls {
 public:
  /// `names`: the functions that may be called. Of none, every text is text.
  explicit BareCalls(std::vector<std::string> names) : names_(std::move(names)) {}

  /// Takes the answer's next part; false where the answer is text, all of which taken() then has.
  bool push(std::string_view text);
  const std::string& taken() const { return taken_; }
  /// The calls, at the end of the answer; none where it was not only calls.
  std::vector<FoundCall> finish();

 private:
  enum class State { kBetween, kTicks, kLanguage, kJson };
  bool step(char c);
  bool step_between(char c);
  bool step_json(char c);

  const std::vector<std::string> names_;
  State state_ = State::kBetween;
  std::string taken_;
  std::string part_;      // of what the state is about: the ticks, the fence's language, the JSON so far
  std::string head_;      // the first bytes of the JSON without blanks
  JsonExtent extent_;
  bool fenced_ = false;
  std::vector<FoundCall> calls_;
};

}  // namespace espalier
