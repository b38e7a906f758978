// Grammar: a context-free grammar over bytes, compiled so that it can be followed one byte at a time, whatever the
// token borders are. Characters have become the byte sequences of their UTF-8 form, so a token may end inside one.
//
// Each rule is a small automaton. A node either reads a byte of a range, or goes on in two ways, or calls a rule and
// goes on where that ends, or ends its own. Repetitions are loops inside a rule; small rules without loops (a character
// with its escapes, say) are copied to where they are used. So a call, and with it a step on the stack, is left for
// what is worth one: nesting, and larger parts that several places share.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "text/grammar_source.h"

namespace espalier {

class Grammar {
 public:
  enum class Kind : uint8_t { kEnd, kByte, kSplit, kCall };
  struct Node {
    Kind kind;
    uint8_t low = 0, high = 0;  ///< kByte reads one from low to high
    uint32_t next = 0;          ///< what follows
    uint32_t other = 0;         ///< kSplit: the second way; kCall: the rule
  };
  /// The one node that ends a rule.
  static constexpr uint32_t kEnd = 0;

  const Node& node(uint32_t n) const { return nodes_[n]; }
  size_t size() const { return nodes_.size(); }
  size_t rule_count() const { return starts_.size(); }
  uint32_t root() const { return root_; }
  uint32_t start(uint32_t rule) const { return starts_[rule]; }
  /// Whether the rule matches the empty text.
  bool nullable(uint32_t rule) const { return nullable_[rule]; }
  /// Falls from a rule to those that it may begin with.
  uint32_t left_rank(uint32_t rule) const { return left_rank_[rule]; }
  /// Bytes that no node tells apart have one class; classes are 0, 1, ...
  uint8_t byte_class(uint8_t byte) const { return byte_class_[byte]; }
  size_t byte_classes() const { return byte_classes_; }

 private:
  friend class GrammarCompiler;
  std::vector<Node> nodes_;
  std::vector<uint32_t> starts_, left_rank_;
  std::vector<bool> nullable_;
  uint32_t root_ = 0;
  std::array<uint8_t, 256> byte_class_{};
  size_t byte_classes_ = 0;
};

/// Compiles a grammar whose texts are those of the rule `root`. `what` names it in errors. Throws Error kBadData where
/// a rule that is used is not defined, begins with itself (left recursion), or can never end; kUnsupported where the
/// grammar has more than half a million nodes with its repetitions written out.
std::shared_ptr<const Grammar> compile_grammar(const GrammarSource& source, GrammarSource::Rule root,
                                               const std::string& what);

}  // namespace espalier
