// From a template's text to tokens, with the white space around tags taken away as trim_blocks and lstrip_blocks say:
// the newline behind a block or comment goes, and so do the spaces before one that stands first on its line; `-` takes
// all white space on its side, `+` keeps it. Line ends become \n, and the last one of the template goes.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace espalier::jinja {

enum class TokenType : uint8_t {
  kData,           ///< text between tags
  kVariableBegin,  ///< {{
  kVariableEnd,
  kBlockBegin,  ///< {%
  kBlockEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenType type = TokenType::kEnd;
  int line = 1;
  std::string text;  ///< a string's value; a name, operator or number as written
};

/// All tokens, the last of them kEnd. The source must be well-formed UTF-8. Throws Error kBadData naming `what` and the
/// line.
std::vector<Token> tokenize(std::string_view source, const std::string& what);

}  // namespace espalier::jinja
