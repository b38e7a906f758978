#include "text/json_grammar.h"

#include <map>
#include <memory>

#include "text/utf8.h"

namespace espalier {
namespace {

constexpr int64_t kMaxDigits = 16, kMaxExponentDigits = 2, kMaxIndent = 40;

}  // namespace

using Part = JsonGrammar::Part;

// A rule may use itself, so it is declared before its body is made.
Part JsonGrammar::once(std::optional<GrammarSource::Rule>& rule, const char* name, Part (JsonGrammar::*body)()) {
  if (!rule) {
    rule = g_.declare(name);
    g_.define(*rule, (this->*body)());
  }
  return g_.rule(*rule);
}

Part JsonGrammar::space() { return once(space_, "space", &JsonGrammar::space_body); }
Part JsonGrammar::value() { return once(value_, "value", &JsonGrammar::value_body); }
Part JsonGrammar::object() { return once(object_, "object", &JsonGrammar::object_body); }
Part JsonGrammar::array() { return once(array_, "array", &JsonGrammar::array_body); }
Part JsonGrammar::string() { return once(string_, "string", &JsonGrammar::string_body); }
Part JsonGrammar::number() { return once(number_, "number", &JsonGrammar::number_body); }
Part JsonGrammar::character() { return once(character_, "character", &JsonGrammar::character_body); }

Part JsonGrammar::space_body() {
  const Part indent = g_.repeat(g_.character({{' ', ' '}, {'\t', '\t'}}), 0, kMaxIndent);
  return g_.choice({g_.literal(""), g_.literal(" "), g_.sequence({g_.literal("\n"), indent})});
}

Part JsonGrammar::value_body() {
  return g_.choice({object(), array(), string(), number(), g_.literal("true"), g_.literal("false"),
                    g_.literal("null")});
}

Part JsonGrammar::object_body() {
  return list('{', g_.sequence({string(), g_.literal(":"), space(), value()}), 0, std::nullopt, '}');
}

Part JsonGrammar::array_body() { return list('[', value(), 0, std::nullopt, ']'); }

Part JsonGrammar::string_body() { return string(0, std::nullopt); }

Part JsonGrammar::string(int64_t min, std::optional<int64_t> max) {
  return g_.sequence({g_.literal("\""), g_.repeat(character(), min, max), g_.literal("\"")});
}

Part JsonGrammar::digits(int64_t min, int64_t max) { return g_.repeat(g_.character({{'0', '9'}}), min, max); }

Part JsonGrammar::number_body() {
  const Part fraction = g_.sequence({g_.literal("."), digits(1, kMaxDigits)});
  const Part sign = g_.optional(g_.character({{'+', '+'}, {'-', '-'}}));
  const Part exponent =
      g_.sequence({g_.character({{'e', 'e'}, {'E', 'E'}}), sign, digits(1, kMaxExponentDigits)});
  return g_.sequence({g_.optional(g_.literal("-")), magnitude("0", std::nullopt), g_.optional(fraction),
                      g_.optional(exponent)});
}

Part JsonGrammar::list(char open, Part item, int64_t min, std::optional<int64_t> max, char close) {
  std::vector<Part> parts = {g_.literal(std::string(1, open)), space()};
  if (!max || *max > 0) {
    const Part more = g_.sequence({g_.literal(","), space(), item});
    const auto others = max ? std::optional(*max - 1) : std::nullopt;
    const Part items = g_.sequence({item, g_.repeat(more, std::max<int64_t>(min - 1, 0), others), space()});
    parts.push_back(min > 0 ? items : g_.optional(items));
  }
  parts.push_back(g_.literal(std::string(1, close)));
  return g_.sequence(std::move(parts));
}

Part JsonGrammar::plain_character(const std::vector<uint32_t>& but) {
  std::vector<CodeRange> ranges = {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
  for (const uint32_t c : but) ranges.push_back({c, c});
  return g_.character(std::move(ranges), true);
}

Part JsonGrammar::character_body() {
  const auto hex = [&](int64_t n) { return g_.repeat(g_.character({{'0', '9'}, {'a', 'f'}, {'A', 'F'}}), n, n); };
  const Part code = g_.choice(
      {g_.sequence({g_.character({{'0', '9'}, {'a', 'c'}, {'e', 'f'}, {'A', 'C'}, {'E', 'F'}}), hex(3)}),
       g_.sequence({g_.character({{'d', 'd'}, {'D', 'D'}}), g_.character({{'0', '7'}}), hex(2)})});
  const Part letter = g_.character({{'"', '"'}, {'\\', '\\'}, {'/', '/'}, {'b', 'b'}, {'f', 'f'}, {'n', 'n'},
                                    {'r', 'r'}, {'t', 't'}});
  const Part escape = g_.choice({letter, g_.sequence({g_.literal("u"), code})});
  return g_.choice({plain_character({}), g_.sequence({g_.literal("\\"), escape})});
}

Part JsonGrammar::character_of(const std::vector<CodeRange>& ranges) {
  const std::vector<CodeRange> wanted = normalise(ranges), unwanted = complement(wanted);
  const auto has = [&](uint32_t c) {
    for (const CodeRange& r : wanted)
      if (r.first <= c && c <= r.last) return true;
    return false;
  };
  std::vector<CodeRange> escaped = unwanted;
  escaped.insert(escaped.end(), {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}});
  std::vector<Part> parts;
  if (!complement(normalise(escaped)).empty()) parts.push_back(g_.character(escaped, true));
  for (const auto& [c, text] : {std::pair<uint32_t, const char*>{'"', "\\\""}, {'\\', "\\\\"}, {'\b', "\\b"},
                                {'\f', "\\f"}, {'\n', "\\n"}, {'\r', "\\r"}, {'\t', "\\t"}})
    if (has(c)) parts.push_back(g_.literal(text));
  if (parts.empty())  // control characters alone
    for (uint32_t c = 0; c < 0x20; ++c)
      if (has(c)) parts.push_back(g_.literal(std::string("\\u00") + "01"[c / 16] + "0123456789abcdef"[c % 16]));
  return g_.choice(std::move(parts));
}

struct JsonGrammar::NameTree {
  bool ends = false;
  std::map<uint32_t, std::unique_ptr<NameTree>> next;
};

// Escapes could spell a name in other ways, so there are none; a name that needs them cannot be written by accident.
Part JsonGrammar::string_unless(const std::vector<std::string>& names) {
  NameTree tree;
  for (const std::string& name : names) {
    NameTree* at = &tree;
    for (size_t i = 0; i < name.size();) {
      int length;
      const uint32_t c = utf8_decode(reinterpret_cast<const uint8_t*>(name.data() + i), length);
      std::unique_ptr<NameTree>& child = at->next[c];
      if (!child) child = std::make_unique<NameTree>();
      at = child.get();
      i += size_t(length);
    }
    at->ends = true;
  }
  return g_.sequence({g_.literal("\""), unless(tree), g_.literal("\"")});
}

Part JsonGrammar::unless(const NameTree& names) {
  std::vector<Part> ways;
  if (!names.ends) ways.push_back(g_.literal(""));
  std::vector<uint32_t> known;
  for (const auto& [c, child] : names.next) {
    known.push_back(c);
    if (c < 0x20 || c == '"' || c == '\\') continue;
    std::string text;
    append_utf8(text, c);
    ways.push_back(g_.sequence({g_.literal(text), unless(*child)}));
  }
  ways.push_back(g_.sequence({plain_character(known), g_.repeat(plain_character({}), 0, std::nullopt)}));
  return g_.choice(std::move(ways));
}

}  // namespace espalier
