// The parts of grammars for JSON texts, which text/json_schema.h puts together.
//
// What may be written in many ways is kept to few, so that a model that has lost its way ends soon: between tokens a
// space or a line break with up to 40 spaces or tabs may stand (not before "," and ":"), numbers have at most 16 digits
// on either side of the point and 2 in the exponent, and surrogates are not escaped (a text may hold the characters).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/grammar_source.h"

namespace espalier {

class JsonGrammar {
 public:
  using Part = GrammarSource::Part;

  explicit JsonGrammar(GrammarSource& source) : g_(source) {}
  GrammarSource& source() { return g_; }

  Part space();
  /// Any value; any object; any array.
  Part value();
  Part object();
  Part array();
  Part string();
  /// A string of min to max characters.
  Part string(int64_t min, std::optional<int64_t> max);
  Part number();
  /// An integer from min to max, both included.
  Part integer(std::optional<int64_t> min, std::optional<int64_t> max);
  /// One character of a string, as it is or escaped.
  Part character();
  /// One of these characters inside a string, escaped where JSON asks for it.
  Part character_of(const std::vector<CodeRange>& ranges);
  /// A string that is none of `names` (each of up to 512 characters); without escapes.
  Part string_unless(const std::vector<std::string>& names);

  /// `open`, space, the items with commas between them, space, `close`; at least min and at most max items.
  Part list(char open, Part item, int64_t min, std::optional<int64_t> max, char close);

 private:
  struct NameTree;
  Part unless(const NameTree& names);
  Part plain_character(const std::vector<uint32_t>& but);
  Part magnitude(const std::string& min, const std::optional<std::string>& max);
  Part digits(int64_t min, int64_t max);
  Part once(std::optional<GrammarSource::Rule>& rule, const char* name, Part (JsonGrammar::*body)());
  Part space_body();
  Part value_body();
  Part object_body();
  Part array_body();
  Part string_body();
  Part number_body();
  Part character_body();

  GrammarSource& g_;
  std::optional<GrammarSource::Rule> space_, value_, object_, array_, string_, number_, character_;
};

}  // namespace espalier
