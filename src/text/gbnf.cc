#include "text/gbnf.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "base/error.h"
#include "text/utf8.h"

namespace espalier {
namespace {

constexpr int kMaxNesting = 128;
constexpr size_t kMaxText = size_t{1} << 24;

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

class GbnfParser {
 public:
  GbnfParser(std::string_view text, const std::string& what) : text_(text), what_(what) {}

  std::shared_ptr<const Grammar> parse() {
    if (text_.size() > kMaxText) fail("the grammar is larger than 16 MiB");
    if (!is_utf8(text_)) fail("the grammar is not UTF-8");
    for (skip_space(true); !at_end(); skip_space(true)) rule();
    for (const auto& [name, r] : rules_)
      if (!source_.body(r.rule)) fail_at(r.first_use, fmt::format("the rule '{}' is used and not defined", name));
    const auto root = rules_.find("root");
    if (root == rules_.end())
      throw error(Code::kBadData, "{}: there is no rule 'root'; it says what the whole text is", what_);
    return compile_grammar(source_, root->second.rule, what_);
  }

 private:
  struct Named {
    GrammarSource::Rule rule;
    size_t first_use;
  };

  bool at_end() const { return at_ == text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }
  bool take(char c) {
    if (at_end() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  [[noreturn]] void fail_at(size_t at, const std::string& problem, Code code = Code::kBadData) const {
    const std::string_view before = text_.substr(0, at);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const size_t start = before.rfind('\n') == before.npos ? 0 : before.rfind('\n') + 1;
    const auto column = 1 + std::count_if(before.begin() + std::ptrdiff_t(start), before.end(),
                                          [](char c) { return (uint8_t(c) & 0xC0) != 0x80; });
    throw error(code, "{}:{}:{}: {}", what_, line, column, problem);
  }
  [[noreturn]] void fail(const std::string& problem) const { fail_at(at_, problem); }
  [[noreturn]] void fail_expecting(const std::string& expected) const {
    if (at_end()) fail("found the end of the grammar, expected " + expected);
    int length;
    utf8_decode(reinterpret_cast<const uint8_t*>(text_.data() + at_), length);
    const std::string_view found = text_.substr(at_, size_t(length));
    fail(fmt::format("found {}, expected {}", found == "\n" ? "the end of the line" : fmt::format("'{}'", found),
                     expected));
  }

  void skip_space(bool lines) {
    for (; !at_end(); ++at_) {
      if (peek() == '#')
        at_ = std::min(text_.find('\n', at_), text_.size());
      if (at_end() || !(peek() == ' ' || peek() == '\t' || (lines && (peek() == '\n' || peek() == '\r')))) break;
    }
  }

  std::string name() {
    const size_t begin = at_;
    while (!at_end() && is_name(text_[at_])) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  GrammarSource::Rule rule_of(const std::string& rule_name, size_t at) {
    const auto [found, fresh] = rules_.try_emplace(rule_name, Named{0, at});
    if (fresh) found->second.rule = source_.declare(rule_name);
    return found->second.rule;
  }

  void rule() {
    const size_t begin = at_;
    if (!is_name(peek())) fail_expecting("the name of a rule");
    const std::string rule_name = name();
    skip_space(false);
    if (text_.substr(at_, 3) != "::=") fail_expecting("::= behind the name of a rule");
    at_ += 3;
    skip_space(true);
    const GrammarSource::Rule r = rule_of(rule_name, begin);
    if (source_.body(r)) fail_at(begin, fmt::format("the rule '{}' is defined twice", rule_name));
    source_.define(r, choices(0));
    skip_space(false);
    if (!at_end() && peek() != '\n' && peek() != '\r' && !begins_rule())
      fail_expecting("the end of the line, or another part of the rule");
  }

  /// Whether the next line begins with "|"; if so, it is reached.
  bool goes_on_below() {
    const size_t here = at_;
    skip_space(true);
    if (peek() == '|') return true;
    at_ = here;
    return false;
  }

  GrammarSource::Part choices(int depth) {
    if (depth > kMaxNesting) fail(fmt::format("parentheses are nested more than {} deep", kMaxNesting));
    std::vector<GrammarSource::Part> list = {sequence(depth)};
    while (peek() == '|' || (depth == 0 && goes_on_below())) {
      ++at_;
      skip_space(true);
      list.push_back(sequence(depth));
    }
    return source_.choice(std::move(list));
  }

  /// A name before "::=" begins the next rule; this happens where the last choice of a rule is empty.
  bool begins_rule() {
    const size_t here = at_;
    name();
    skip_space(false);
    const bool result = text_.substr(at_, 3) == "::=";
    at_ = here;
    return result;
  }

  GrammarSource::Part sequence(int depth) {
    std::vector<GrammarSource::Part> parts;
    for (;; skip_space(depth > 0)) {
      if (peek() == '"') parts.push_back(source_.literal(quoted()));
      else if (peek() == '[') parts.push_back(character_class());
      else if (take('.')) parts.push_back(source_.character({}, true));
      else if (peek() == '(') parts.push_back(group(depth));
      else if (peek() == '<' || peek() == '!')
        fail_at(at_, "references to tokens are not supported; write the text of the token", Code::kUnsupported);
      else if (is_name(peek()) && !begins_rule()) parts.push_back(reference());
      else break;
      for (skip_space(depth > 0); postfix(parts.back()); skip_space(depth > 0)) {
      }
    }
    return source_.sequence(std::move(parts));
  }

  GrammarSource::Part reference() {
    const size_t begin = at_;
    const std::string rule_name = name();
    return source_.rule(rule_of(rule_name, begin));
  }

  GrammarSource::Part group(int depth) {
    const size_t begin = at_++;
    skip_space(true);
    const GrammarSource::Part part = choices(depth + 1);
    skip_space(true);
    if (at_end()) fail_at(begin, "this parenthesis is never closed");
    if (!take(')')) fail_expecting("')' or another part of the group");
    return part;
  }

  bool postfix(GrammarSource::Part& part) {
    const size_t begin = at_;
    int64_t min = 0;
    std::optional<int64_t> max;
    if (take('+')) min = 1;
    else if (take('?')) max = 1;
    else if (take('{')) counts(begin, min, max);
    else if (!take('*')) return false;
    part = source_.repeat(part, min, max);
    return true;
  }

  void counts(size_t begin, int64_t& min, std::optional<int64_t>& max) {
    skip_space(false);
    min = number();
    max = min;
    skip_space(false);
    if (take(',')) {
      skip_space(false);
      max = peek() == '}' ? std::nullopt : std::optional(number());
      skip_space(false);
    }
    if (!take('}')) fail_expecting("'}'");
    if (max && *max < min) fail_at(begin, fmt::format("the repetition is from {} to {} times", min, *max));
  }

  int64_t number() {
    int64_t value = 0;
    const char* first = text_.data() + at_;
    const auto [end, failed] = std::from_chars(first, text_.data() + text_.size(), value);
    if (end == first || *first == '-') fail_expecting("a number");
    if (failed != std::errc() || value > (int64_t{1} << 32)) fail("the number is too large");
    at_ += size_t(end - first);
    return value;
  }

  std::string quoted() {
    const size_t begin = at_++;
    std::string bytes;
    while (!at_end() && peek() != '"' && peek() != '\n') append_utf8(bytes, code_point());
    if (!take('"')) fail_at(begin, "this text is not closed before the end of its line");
    return bytes;
  }

  GrammarSource::Part character_class() {
    const size_t begin = at_++;
    const bool negated = take('^');
    std::vector<CodeRange> ranges;
    while (!at_end() && peek() != ']' && peek() != '\n') {
      const size_t at = at_;
      const uint32_t first = code_point();
      uint32_t last = first;
      if (peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        last = code_point();
      }
      if (last < first) fail_at(at, "this range ends before it begins");
      ranges.push_back({first, last});
    }
    if (!take(']')) fail_at(begin, "this class of characters is not closed before the end of its line");
    if (ranges.empty() && !negated) fail_at(begin, "this class has no character");
    return source_.character(std::move(ranges), negated);
  }

  /// The character here, or what an escape says.
  uint32_t code_point() {
    const size_t begin = at_;
    int length;
    if (!take('\\')) {
      const uint32_t c = utf8_decode(reinterpret_cast<const uint8_t*>(text_.data() + at_), length);
      at_ += size_t(length);
      return c;
    }
    const char c = peek();
    ++at_;
    switch (c) {
      case 'n': return '\n';
      case 'r': return '\r';
      case 't': return '\t';
      case '\\': case '"': case '[': case ']': case '-': case '^': return uint8_t(c);
      case 'x': return hexadecimal(begin, 2);
      case 'u': return hexadecimal(begin, 4);
      case 'U': return hexadecimal(begin, 8);
      default:
        fail_at(begin, R"(this escape is not known; there are \n \r \t \\ \" \[ \] \- \^ \xHH \uHHHH \UHHHHHHHH)");
    }
  }

  uint32_t hexadecimal(size_t begin, size_t digits) {
    const std::string_view text = text_.substr(std::min(at_, text_.size()), digits);
    uint32_t value = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
    if (failed != std::errc() || end != text.data() + digits)
      fail_at(begin, fmt::format("this escape needs {} hexadecimal digits", digits));
    if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) fail_at(begin, "this escape is no character");
    at_ += digits;
    return value;
  }

  std::string_view text_;
  const std::string& what_;
  size_t at_ = 0;
  GrammarSource source_;
  std::map<std::string, Named> rules_;
};

}  // namespace

std::shared_ptr<const Grammar> parse_gbnf(std::string_view text, const std::string& what) {
  return GbnfParser(text, what).parse();
}

}  // namespace espalier
