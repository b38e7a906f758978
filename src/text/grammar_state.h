// Following a grammar: the set of all ways in which the bytes so far may be read, byte after byte.
//
// A way is a node and a stack of calls it stands in. Stacks are shared: a frame is the set of places to which a call
// may return, each with the frame below, so that calls of one rule made at the same byte are one frame however many
// ways lead to it (a graph-structured stack: Tomita 1985; Scott and Johnstone 2010, GLL). So an ambiguous grammar costs
// a polynomial in the length of the text, not an exponential. Equal frames have one number, so states can be compared.
// The last call of a rule returns to where the rule would: lists written by recursion do not grow the stack.
#pragma once
#include <compare>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "text/grammar.h"

namespace espalier {

using FrameId = int32_t;

/// A node, and the frame to which its rule returns.
struct GrammarItem {
  FrameId frame;
  uint32_t node;
  auto operator<=>(const GrammarItem&) const = default;
};

/// All ways to go on, in order; the nodes read a byte each.
struct GrammarState {
  std::vector<GrammarItem> items;
  bool may_end = false;  ///< whether the text may end here
  bool operator==(const GrammarState&) const = default;
  bool dead() const { return items.empty() && !may_end; }
};

/// The frames of the stacks, each once. Copyable.
class FrameTable {
 public:
  /// Below everything: what returns to it ends the text.
  static constexpr FrameId kBottom = 0;

  FrameTable() { frames_.emplace_back(); }
  /// The places to which a call returns; items of nodes that follow calls.
  std::span<const GrammarItem> returns(FrameId frame) const { return frames_[size_t(frame)]; }
  /// The frame with these returns, sorted and each once.
  FrameId intern(const std::vector<GrammarItem>& returns);
  size_t size() const { return frames_.size(); }

 private:
  std::vector<std::vector<GrammarItem>> frames_;
  std::unordered_multimap<uint64_t, FrameId> index_;  // by hash
};

/// Steps on states whose frames are those of one table. Holds memory to work in, which copies do not share.
class GrammarStepper {
 public:
  static constexpr int64_t kBudget = int64_t{1} << 25;

  explicit GrammarStepper(const Grammar& grammar) : grammar_(&grammar) {}
  GrammarStepper(const GrammarStepper& other) : grammar_(other.grammar_), budget_(other.budget_) {}
  GrammarStepper& operator=(const GrammarStepper& other) {
    grammar_ = other.grammar_;
    budget_ = other.budget_;
    return *this;
  }

  /// Where a text begins.
  GrammarState begin(FrameTable& frames);
  /// After one more byte.
  GrammarState after(const GrammarState& state, uint8_t byte, FrameTable& frames);
  /// After a call has ended that returns to this frame.
  GrammarState after_return(FrameId frame, FrameTable& frames);

  /// How many more nodes may be looked at before Error kUnsupported says that the grammar is too ambiguous.
  void set_budget(int64_t nodes) { budget_ = nodes; }

 private:
  struct Call {
    uint32_t rule;
    std::vector<GrammarItem> returns;
    FrameId frame;  // once it is known
  };
  GrammarState close(FrameTable& frames);
  void push(GrammarItem item);
  void call(const GrammarItem& item, const Grammar::Node& node);
  void resolve(FrameTable& frames);

  const Grammar* grammar_;
  int64_t budget_ = kBudget;
  std::vector<GrammarItem> open_;
  std::vector<Call> calls_;                       // of this step
  std::unordered_map<uint32_t, size_t> call_of_;  // rule -> its number in calls_
  std::unordered_set<uint64_t> seen_;             // items of this step
};

uint64_t hash_items(std::span<const GrammarItem> items, uint64_t seed = 0);

}  // namespace espalier
