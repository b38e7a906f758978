#include "text/grammar_state.h"

#include <algorithm>

#include "base/error.h"

namespace espalier {
namespace {

constexpr size_t kMaxItems = size_t{1} << 16;

uint64_t key(const GrammarItem& item) { return uint64_t(uint32_t(item.frame)) << 32 | item.node; }

}  // namespace

uint64_t hash_items(std::span<const GrammarItem> items, uint64_t seed) {
  uint64_t h = seed;
  for (const GrammarItem& item : items) {
    h = (h ^ key(item)) * 0x9E3779B97F4A7C15;
    h ^= h >> 29;
  }
  return h;
}

FrameId FrameTable::intern(const std::vector<GrammarItem>& returns) {
  if (returns.size() == 1 && returns[0] == GrammarItem{kBottom, Grammar::kEnd}) return kBottom;
  const uint64_t hash = hash_items(returns);
  const auto [first, last] = index_.equal_range(hash);
  for (auto at = first; at != last; ++at)
    if (frames_[size_t(at->second)] == returns) return at->second;
  frames_.push_back(returns);
  const FrameId id = FrameId(frames_.size() - 1);
  index_.emplace(hash, id);
  return id;
}

GrammarState GrammarStepper::begin(FrameTable& frames) {
  push({FrameTable::kBottom, grammar_->start(grammar_->root())});
  return close(frames);
}

GrammarState GrammarStepper::after(const GrammarState& state, uint8_t byte, FrameTable& frames) {
  for (const GrammarItem& item : state.items) {
    const Grammar::Node& node = grammar_->node(item.node);
    if (node.low <= byte && byte <= node.high) push({item.frame, node.next});
  }
  return close(frames);
}

GrammarState GrammarStepper::after_return(FrameId frame, FrameTable& frames) {
  for (const GrammarItem& item : frames.returns(frame)) push(item);
  return close(frames);
}

void GrammarStepper::push(GrammarItem item) {
  if (--budget_ < 0)
    throw error(Code::kUnsupported, "the grammar can be read in too many ways: following it takes more than {} steps "
                "for one token; make it less ambiguous", kBudget);
  if (seen_.insert(key(item)).second) open_.push_back(item);
}

// Frames of calls made in this step are not known before all their callers are; until then call i has number -1 - i.
void GrammarStepper::call(const GrammarItem& item, const Grammar::Node& node) {
  const auto [at, fresh] = call_of_.try_emplace(node.other, calls_.size());
  if (fresh) calls_.push_back({node.other, {}, 0});
  calls_[at->second].returns.push_back({item.frame, node.next});
  if (fresh) push({-1 - FrameId(at->second), grammar_->start(node.other)});
  if (grammar_->nullable(node.other)) push({item.frame, node.next});
}

// A rule that ends in the step in which it was called read nothing; call() has gone on behind it already.
GrammarState GrammarStepper::close(FrameTable& frames) {
  GrammarState state;
  while (!open_.empty()) {
    const GrammarItem item = open_.back();
    open_.pop_back();
    const Grammar::Node& node = grammar_->node(item.node);
    switch (node.kind) {
      case Grammar::Kind::kByte:
        if (node.low <= node.high) state.items.push_back(item);
        break;
      case Grammar::Kind::kSplit:
        push({item.frame, node.next});
        push({item.frame, node.other});
        break;
      case Grammar::Kind::kCall:
        call(item, node);
        break;
      case Grammar::Kind::kEnd:
        if (item.frame == FrameTable::kBottom) state.may_end = true;
        if (item.frame > FrameTable::kBottom)
          for (const GrammarItem& r : frames.returns(item.frame)) push(r);
        break;
    }
  }
  resolve(frames);
  for (GrammarItem& item : state.items)
    if (item.frame < 0) item.frame = calls_[size_t(-1 - item.frame)].frame;
  std::sort(state.items.begin(), state.items.end());
  state.items.erase(std::unique(state.items.begin(), state.items.end()), state.items.end());
  if (state.items.size() > kMaxItems)
    throw error(Code::kUnsupported, "the grammar can be read in too many ways: {} at one place, of {} at most; make it "
                "less ambiguous", state.items.size(), kMaxItems);
  calls_.clear();
  call_of_.clear();
  seen_.clear();
  return state;
}

// Callers come before what they begin with: that there is such an order is what forbids left recursion. A call at the
// end of a rule returns to where that rule returns.
void GrammarStepper::resolve(FrameTable& frames) {
  std::vector<Call*> order;
  for (Call& c : calls_) order.push_back(&c);
  std::sort(order.begin(), order.end(), [&](const Call* a, const Call* b) {
    return grammar_->left_rank(a->rule) > grammar_->left_rank(b->rule);
  });
  std::vector<GrammarItem> returns;
  for (Call* c : order) {
    returns.clear();
    for (GrammarItem r : c->returns) {
      if (r.frame < 0) r.frame = calls_[size_t(-1 - r.frame)].frame;
      const auto below = frames.returns(r.frame);
      if (r.node != Grammar::kEnd || r.frame == FrameTable::kBottom) returns.push_back(r);
      else returns.insert(returns.end(), below.begin(), below.end());
    }
    std::sort(returns.begin(), returns.end());
    returns.erase(std::unique(returns.begin(), returns.end()), returns.end());
    c->frame = frames.intern(returns);
  }
}

}  // namespace espalier
