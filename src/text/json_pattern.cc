#include "text/json_pattern.h"

#include <charconv>

#include "base/error.h"
#include "text/utf8.h"

namespace espalier {
namespace {

using Part = JsonGrammar::Part;
using Ranges = std::vector<CodeRange>;

constexpr int kMaxNesting = 64;
constexpr uint32_t kLastAscii = 0x7F;

const Ranges kDigits = {{'0', '9'}};
const Ranges kWord = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const Ranges kSpace = {{'\t', '\r'}, {' ', ' '}};
const Ranges kLineEnds = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

void append(Ranges& ranges, const Ranges& more) { ranges.insert(ranges.end(), more.begin(), more.end()); }

Ranges ascii_but(const Ranges& ranges) {
  Ranges all = ranges;
  all.push_back({kLastAscii + 1, 0x10FFFF});
  return complement(normalise(all));
}

class PatternParser {
 public:
  PatternParser(JsonGrammar& json, std::string_view pattern, const std::string& what)
      : json_(json), g_(json.source()), text_(pattern), what_(what) {}

  Part parse() {
    if (!is_utf8(text_)) fail("it is not UTF-8");
    std::vector<Part> ways;
    do ways.push_back(anchored());
    while (take('|'));
    if (!at_end()) fail("a parenthesis is closed that was not opened");
    return g_.sequence({g_.literal("\""), g_.choice(std::move(ways)), g_.literal("\"")});
  }

 private:
  bool at_end() const { return at_ == text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }
  bool take(std::string_view s) {
    if (!text_.substr(at_).starts_with(s)) return false;
    at_ += s.size();
    return true;
  }
  bool take(char c) { return take(std::string_view(&c, 1)); }

  [[noreturn]] void fail(const std::string& problem, Code code = Code::kBadData) const {
    throw error(code, "{}: the pattern '{}', at character {}: {}", what_, text_, at_ + 1, problem);
  }
  [[noreturn]] void unsupported(const std::string& thing) const {
    fail(thing + " cannot be written as a grammar here", Code::kUnsupported);
  }

  Part anything() { return g_.repeat(json_.character(), 0, std::nullopt); }

  /// One choice of the whole: what it leaves open at its ends may be anything.
  Part anchored() {
    std::vector<Part> parts;
    if (!take('^')) parts.push_back(anything());
    parts.push_back(sequence(0));
    if (!take('$')) parts.push_back(anything());
    return g_.sequence(std::move(parts));
  }

  Part sequence(int depth) {
    std::vector<Part> parts;
    while (!at_end() && peek() != '|' && peek() != ')') {
      if (peek() == '$' && depth == 0 && (at_ + 1 == text_.size() || text_[at_ + 1] == '|')) break;
      Part part = atom(depth);
      if (const auto counts = quantifier()) {
        part = g_.repeat(part, counts->first, counts->second);
        take('?');  // lazy: the same texts
        if (quantifier()) fail("a quantifier follows a quantifier");
      }
      parts.push_back(part);
    }
    return g_.sequence(std::move(parts));
  }

  Part atom(int depth) {
    if (take('(')) return group(depth);
    if (take('[')) return json_.character_of(character_class());
    if (take('.')) return json_.character_of(complement(kLineEnds));
    if (peek() == '^' || peek() == '$') unsupported("an anchor that is not at an end of the whole");
    if (peek() == '*' || peek() == '+' || peek() == '?' || peek() == '{') fail("there is nothing to repeat");
    Ranges ranges;
    if (take('\\')) escape(ranges, false);
    else ranges.push_back(character());
    return json_.character_of(ranges);
  }

  Part group(int depth) {
    if (depth >= kMaxNesting) fail("groups are nested too deep");
    if (take("?") && !take(":")) unsupported("a group that begins with (?");
    std::vector<Part> ways;
    do ways.push_back(sequence(depth + 1));
    while (take('|'));
    if (!take(')')) fail("a parenthesis is not closed");
    return g_.choice(std::move(ways));
  }

  std::optional<std::pair<int64_t, std::optional<int64_t>>> quantifier() {
    if (take('*')) return std::pair(int64_t{0}, std::optional<int64_t>());
    if (take('+')) return std::pair(int64_t{1}, std::optional<int64_t>());
    if (take('?')) return std::pair(int64_t{0}, std::optional<int64_t>(1));
    if (!take('{')) return std::nullopt;
    const int64_t min = number();
    const bool comma = take(','), open = comma && peek() == '}';
    const int64_t max = comma && !open ? number() : min;
    if (!take('}')) fail("expected '}'");
    if (max < min) fail("a repetition ends before it begins");
    return std::pair(min, open ? std::optional<int64_t>() : std::optional<int64_t>(max));
  }

  int64_t number() {
    uint32_t value = 0;
    const auto [end, failed] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (failed != std::errc()) fail("expected a number");
    at_ = size_t(end - text_.data());
    return int64_t(value);
  }

  CodeRange character() {
    int length;
    const uint32_t c = utf8_decode(reinterpret_cast<const uint8_t*>(text_.data() + at_), length);
    at_ += size_t(length);
    return {c, c};
  }

  /// What stands behind a backslash. True where it is one character.
  bool escape(Ranges& ranges, bool in_class) {
    if (at_end()) fail("a backslash ends it");
    const char c = text_[at_];
    if ((c >= '1' && c <= '9') || c == 'k') unsupported("a reference to a group");
    if ((c == 'b' && !in_class) || c == 'B') unsupported("a border of words");
    if (c == 'p' || c == 'P' || c == 'c') unsupported(std::string("\\") + c);
    if (uint8_t(c) >= 0x80) return ranges.push_back(character()), true;
    ++at_;
    const auto one = [&](uint32_t code) { return ranges.push_back({code, code}), true; };
    switch (c) {
      case 'd': return append(ranges, kDigits), false;
      case 'w': return append(ranges, kWord), false;
      case 's': return append(ranges, kSpace), false;
      case 'D': return append(ranges, ascii_but(kDigits)), false;
      case 'W': return append(ranges, ascii_but(kWord)), false;
      case 'S': return append(ranges, ascii_but(kSpace)), false;
      case 'n': return one('\n');
      case 'r': return one('\r');
      case 't': return one('\t');
      case 'f': return one('\f');
      case 'v': return one('\v');
      case 'b': return one('\b');
      case '0': return one(0);
      case 'x': return one(hexadecimal(2));
      case 'u': return one(hexadecimal(4));
      default: break;
    }
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) fail(std::string("the escape \\") + c + " is not known");
    return one(uint8_t(c));
  }

  uint32_t hexadecimal(size_t digits) {
    const std::string_view part = text_.substr(at_, digits);
    uint32_t value = 0;
    const auto [end, failed] = std::from_chars(part.data(), part.data() + part.size(), value, 16);
    if (failed != std::errc() || end != part.data() + digits) fail("an escape lacks hexadecimal digits");
    if (value >= 0xD800 && value <= 0xDFFF) unsupported("a surrogate");
    at_ += digits;
    return value;
  }

  Ranges character_class() {
    const bool negated = take('^');
    Ranges ranges;
    bool ascii = false;  // \w and its like: dialects differ beyond
    while (!at_end() && peek() != ']') {
      bool single = true;
      if (take('\\')) single = escape(ranges, true);
      else ranges.push_back(character());
      ascii |= !single;
      if (peek() != '-' || at_ + 1 >= text_.size() || text_[at_ + 1] == ']') continue;
      ++at_;
      Ranges last;
      const bool single_last = take('\\') ? escape(last, true) : (last.push_back(character()), true);
      if (!single || !single_last) fail("a range of characters ends in a class");
      if (last[0].first < ranges.back().first) fail("a range of characters ends before it begins");
      ranges.back().last = last[0].first;
    }
    if (!take(']')) fail("a class of characters is not closed");
    if (!negated) return ranges;
    return ascii ? ascii_but(ranges) : complement(normalise(ranges));
  }

  JsonGrammar& json_;
  GrammarSource& g_;
  std::string_view text_;
  const std::string& what_;
  size_t at_ = 0;
};

}  // namespace

Part json_pattern(JsonGrammar& json, std::string_view pattern, const std::string& what) {
  return PatternParser(json, pattern, what).parse();
}

}  // namespace espalier
