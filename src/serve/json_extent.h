// Where a JSON object or array ends in a text that comes piece by piece: brackets counted, strings skipped. It checks
// nothing else; a parser does when the end is there.
#pragma once

namespace espalier {

class JsonExtent {
 public:
  /// Takes the next byte, the first of which opens the value; true when the value is whole.
  bool take(char c) {
    if (in_string_) {
      if (escaped_) escaped_ = false;
      else if (c == '\\') escaped_ = true;
      else if (c == '"') in_string_ = false;
    } else if (c == '"') {
      in_string_ = true;
    } else if (c == '{' || c == '[') {
      ++depth_;
    } else if (c == '}' || c == ']') {
      --depth_;
    }
    return depth_ == 0;
  }

 private:
  int depth_ = 0;
  bool in_string_ = false, escaped_ = false;
};

}  // namespace espalier
