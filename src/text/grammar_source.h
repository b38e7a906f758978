// GrammarSource: a context-free grammar as it is written: rules made of literals, characters, sequences, choices and
// repetitions. Readers build one (text/gbnf.h, text/json_schema.h) and compile_grammar makes a Grammar of it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace espalier {

/// Code points from first to last, both included.
struct CodeRange {
  uint32_t first, last;
};

class GrammarSource {
 public:
  /// A part of a rule. It may stand in several places; each gets a copy when the grammar is compiled.
  using Part = int32_t;
  using Rule = int32_t;

  enum class Kind : uint8_t { kLiteral, kCharacter, kSequence, kChoice, kRepeat, kRule };
  struct Node {
    Kind kind;
    std::string bytes;               // of a literal
    std::vector<CodeRange> ranges;   // of a character: sorted, apart from each other
    std::vector<Part> parts;
    int64_t min = 0, max = 0;        // of a repetition; max -1: without end
    Rule rule = 0;
  };

  /// These bytes. The empty literal is the empty text.
  Part literal(std::string_view bytes);
  /// One character among the ranges, or one that is not. Surrogates are no characters.
  Part character(std::vector<CodeRange> ranges, bool negated = false);
  Part sequence(std::vector<Part> parts);
  /// One of the parts; of none: nothing matches.
  Part choice(std::vector<Part> parts);
  /// From min to max times; without max, any number of times from min on.
  Part repeat(Part part, int64_t min, std::optional<int64_t> max);
  Part optional(Part part) { return repeat(part, 0, 1); }
  Part rule(Rule rule);

  /// A rule to be defined later.
  Rule declare(std::string name);
  void define(Rule rule, Part body) { rules_[size_t(rule)].body = body; }
  /// A rule of this body, as a part.
  Part named(std::string name, Part body);

  const Node& node(Part part) const { return nodes_[size_t(part)]; }
  size_t rule_count() const { return rules_.size(); }
  const std::string& name(Rule rule) const { return rules_[size_t(rule)].name; }
  /// Nothing where it was declared alone.
  std::optional<Part> body(Rule rule) const { return rules_[size_t(rule)].body; }

 private:
  struct Named {
    std::string name;
    std::optional<Part> body;
  };
  Part add(Node node);

  std::vector<Node> nodes_;
  std::vector<Named> rules_;
};

/// Sorts ranges and joins those that touch.
std::vector<CodeRange> normalise(std::vector<CodeRange> ranges);
/// All characters that are in no range; ranges are as normalise gives them.
std::vector<CodeRange> complement(const std::vector<CodeRange>& ranges);

}  // namespace espalier
