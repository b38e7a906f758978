#include "text/jinja_lexer.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "text/jinja_string.h"
#include "text/utf8.h"

namespace espalier::jinja {
namespace {

/// With \n for every line end, and without the last one.
std::string normal_lines(std::string_view source) {
  std::string out;
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

bool is_name_byte(char c) { return std::isalnum(uint8_t(c)) || c == '_' || uint8_t(c) >= 0x80; }
bool is_digit(char c) { return std::isdigit(uint8_t(c)); }

class Lexer {
 public:
  Lexer(std::string source, const std::string& what) : source_(std::move(source)), text_(source_), what_(what) {}

  std::vector<Token> run() {
    while (at_ < text_.size()) read_data();
    add(TokenType::kEnd, "");
    return std::move(tokens_);
  }

 private:
  template <class... Args>
  Error fail(fmt::format_string<Args...> format, Args&&... args) const {
    return error(Code::kBadData, "reading {}, line {}: {}", what_, line_,
                 fmt::format(format, std::forward<Args>(args)...));
  }

  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool starts(std::string_view word) const { return text_.substr(at_).starts_with(word); }

  void advance(size_t bytes) {
    line_ += int(std::count(text_.begin() + long(at_), text_.begin() + long(at_ + bytes), '\n'));
    at_ += bytes;
  }
  void skip_space() { advance(text_.size() - at_ - strip(text_.substr(at_), nullptr, true, false).size()); }
  void add(TokenType type, std::string text) { tokens_.push_back({type, line_, std::move(text)}); }

  /// The start of the next tag, or the end.
  size_t next_tag() const {
    for (size_t i = at_; (i = text_.find('{', i)) != text_.npos; ++i)
      if (i + 1 < text_.size() && std::string_view("%{#").find(text_[i + 1]) != std::string_view::npos) return i;
    return text_.size();
  }

  /// What is left of the text before a tag. `sign` stands behind the tag's opening; a variable strips nothing itself.
  std::string_view before_tag(std::string_view data, char sign, bool variable) const {
    if (sign == '-') return strip(data, nullptr, false, true);
    if (sign == '+' || variable) return data;
    const size_t line_start = data.rfind('\n') + 1;  // npos + 1 is 0
    if (line_start == 0 && !line_starting_) return data;
    return strip(data.substr(line_start), nullptr, true, false).empty() ? data.substr(0, line_start) : data;
  }

  char sign_at(size_t at) const {
    return at < text_.size() && (text_[at] == '-' || text_[at] == '+') ? text_[at] : '\0';
  }

  void read_data() {
    const size_t tag = next_tag();
    const std::string_view data = text_.substr(at_, tag - at_);
    if (tag == text_.size()) {
      add(TokenType::kData, std::string(data));
      return advance(data.size());
    }
    const char kind = text_[tag + 1];
    const std::string_view kept = before_tag(data, sign_at(tag + 2), kind == '{');
    if (!kept.empty()) add(TokenType::kData, std::string(kept));
    advance(tag - at_);
    if (kind == '%' && read_raw()) return;
    advance(2 + (sign_at(tag + 2) != '\0'));
    line_starting_ = false;
    if (kind == '#') return skip_comment();
    add(kind == '{' ? TokenType::kVariableBegin : TokenType::kBlockBegin, "");
    read_tag(kind == '{');
  }

  /// At the end of a tag: its sign and white space, the newline of trim_blocks too. `trims` is false for variables.
  void finish_tag(size_t bytes, bool strips, bool trims) {
    const size_t begin = at_;
    advance(bytes);
    if (strips)
      skip_space();
    else if (trims && peek() == '\n')
      advance(1);
    line_starting_ = at_ > begin && text_[at_ - 1] == '\n';
  }

  void skip_comment() {
    const size_t end = text_.find("#}", at_);
    if (end == text_.npos) throw fail("a comment {{# without its end #}}");
    const char sign = end > at_ ? text_[end - 1] : '\0';
    advance(end - at_);
    finish_tag(2, sign == '-', sign != '+');
  }

  /// {% raw %} ... {% endraw %}, if that is what stands here.
  bool read_raw() {
    size_t length = tag_length(at_, "raw");
    if (length == 0) return false;
    const bool strips = text_[at_ + length - 3] == '-';
    finish_tag(length, strips, false);
    for (size_t tag = text_.find("{%", at_); tag != text_.npos; tag = text_.find("{%", tag + 1)) {
      length = tag_length(tag, "endraw");
      if (length == 0) continue;
      const std::string_view kept = before_tag(text_.substr(at_, tag - at_), sign_at(tag + 2), false);
      if (!kept.empty()) add(TokenType::kData, std::string(kept));
      advance(tag - at_);
      const char sign = text_[at_ + length - 3];
      finish_tag(length, sign == '-', sign != '+');
      return true;
    }
    throw fail("a raw block without its endraw");
  }

  /// Bytes of the tag {% word %} at a place, with signs and spaces; 0 where there is another.
  size_t tag_length(size_t tag, std::string_view word) const {
    std::string_view rest = text_.substr(tag + 2);
    if (!rest.empty() && (rest[0] == '-' || rest[0] == '+')) rest.remove_prefix(1);
    rest = strip(rest, nullptr, true, false);
    if (!rest.starts_with(word)) return 0;
    rest = strip(rest.substr(word.size()), nullptr, true, false);
    if (rest.starts_with('-') || rest.starts_with('+')) rest.remove_prefix(1);
    return rest.starts_with("%}") ? text_.size() - tag - rest.size() + 2 : 0;
  }

  void read_tag(bool variable) {
    const std::string_view end = variable ? "}}" : "%}";
    std::string open;  // brackets that are open
    for (;;) {
      skip_space();
      if (at_ >= text_.size()) throw fail("a tag without its end {}", end);
      const bool signed_end = (peek() == '-' || (peek() == '+' && !variable)) && text_.substr(at_ + 1).starts_with(end);
      if (open.empty() && (signed_end || starts(end))) {
        add(variable ? TokenType::kVariableEnd : TokenType::kBlockEnd, "");
        return finish_tag(2 + signed_end, signed_end && peek() == '-', !variable && !signed_end);
      }
      read_token(open);
    }
  }

  void read_token(std::string& open) {
    const char c = peek();
    if (is_digit(c)) return read_number();
    if (is_name_byte(c)) return read_name();
    if (c == '"' || c == '\'') return read_string(c);
    constexpr const char* kOperators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
                                          "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    for (const std::string_view op : kOperators) {
      if (!starts(op)) continue;
      if (op == "(" || op == "[" || op == "{") open += op == "(" ? ')' : op == "[" ? ']' : '}';
      if (op == ")" || op == "]" || op == "}") {
        if (open.empty()) throw fail("unexpected '{}'", op);
        if (open.back() != op[0]) throw fail("unexpected '{}', expected '{}'", op, open.back());
        open.pop_back();
      }
      add(TokenType::kOperator, std::string(op));
      return advance(op.size());
    }
    throw fail("unexpected character '{}'", c);
  }

  void read_name() {
    size_t end = at_;
    while (end < text_.size() && is_name_byte(text_[end])) ++end;
    add(TokenType::kName, std::string(text_.substr(at_, end - at_)));
    advance(end - at_);
  }

  size_t digits_from(size_t from) const {
    size_t end = from;
    while (end < text_.size() && (is_digit(text_[end]) || (text_[end] == '_' && end > from))) ++end;
    return end;
  }

  // A number behind a dot is an index (x.0.1) and never has a fraction.
  void read_number() {
    size_t end = digits_from(at_);
    bool is_float = false;
    const bool based = peek() == '0' && std::string_view("xXoObB").find(peek(1)) != std::string_view::npos && peek(1);
    if (based) {
      end = at_ + 2;
      while (end < text_.size() && (std::isxdigit(uint8_t(text_[end])) || text_[end] == '_')) ++end;
    } else if (at_ == 0 || text_[at_ - 1] != '.') {
      if (end + 1 < text_.size() && text_[end] == '.' && is_digit(text_[end + 1])) {
        end = digits_from(end + 1);
        is_float = true;
      }
      if (end < text_.size() && (text_[end] | 0x20) == 'e') {
        const size_t sign = end + 1 < text_.size() && (text_[end + 1] == '+' || text_[end + 1] == '-');
        if (const size_t stop = digits_from(end + 1 + sign); stop > end + 1 + sign) {
          end = stop;
          is_float = true;
        }
      }
    }
    std::string number(text_.substr(at_, end - at_));
    std::erase(number, '_');
    add(is_float ? TokenType::kFloat : TokenType::kInteger, std::move(number));
    advance(end - at_);
  }

  void read_string(char quote) {
    std::string value;
    size_t i = at_ + 1;
    for (; i < text_.size() && text_[i] != quote;) {
      if (text_[i] != '\\') {
        value += text_[i++];
      } else {
        if (i + 1 >= text_.size()) break;
        i = read_escape(i + 1, value);
      }
    }
    if (i >= text_.size()) throw fail("a string without its closing {}", quote);
    add(TokenType::kString, std::move(value));
    advance(i + 1 - at_);
  }

  /// Python's escapes; one that it does not know stays as written.
  size_t read_escape(size_t i, std::string& value) {
    const char c = text_[i];
    const size_t known = std::string_view("ntr\\'\"abfv").find(c);
    if (known != std::string_view::npos) {
      value += "\n\t\r\\'\"\a\b\f\v"[known];
      return i + 1;
    }
    if (c == '\n') return i + 1;
    if (c >= '0' && c <= '7') return read_code(i, 3, 8, value);
    if (c == 'N') throw error(Code::kUnsupported, "reading {}, line {}: the escape \\N", what_, line_);
    const int digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits == 0) {
      value += '\\';
      return i;
    }
    const size_t end = read_code(i + 1, size_t(digits), 16, value);
    if (end != i + 1 + size_t(digits)) throw fail("a truncated escape \\{} in a string", c);
    return end;
  }

  size_t read_code(size_t i, size_t most, int base, std::string& value) {
    uint32_t code = 0;
    const size_t end = std::min(i + most, text_.size());
    for (; i < end; ++i) {
      const char c = text_[i];
      const int digit = is_digit(c) ? c - '0' : std::isxdigit(uint8_t(c)) ? (c | 0x20) - 'a' + 10 : 99;
      if (digit >= base) break;
      code = code * uint32_t(base) + uint32_t(digit);
    }
    // Halves of surrogate pairs are no text.
    append_utf8(value, code >= 0x110000 || (code >= 0xD800 && code < 0xE000) ? 0xFFFD : code);
    return i;
  }

  std::string source_;
  std::string_view text_;
  const std::string& what_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source, const std::string& what) {
  return Lexer(normal_lines(source), what).run();
}

}  // namespace espalier::jinja
