#include "text/token_grammar.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <unordered_set>

#include "base/error.h"

namespace espalier {
namespace {

constexpr int32_t kUnknown = -2, kDead = -1;
constexpr size_t kMaxStates = size_t{1} << 18;     // of the automaton, while a walk goes on
constexpr size_t kKeptStates = size_t{1} << 16;    // between walks
constexpr size_t kKeptBytes = size_t{64} << 20;    // of walks

}  // namespace

bool TokenSet::empty() const {
  return std::all_of(words_.begin(), words_.end(), [](uint64_t w) { return w == 0; });
}

size_t TokenSet::count() const {
  size_t n = 0;
  for (const uint64_t w : words_) n += size_t(std::popcount(w));
  return n;
}

void TokenSet::mask(std::span<float> logits) const {
  constexpr float kForbidden = -std::numeric_limits<float>::infinity();
  for (size_t begin = 0; begin < logits.size(); begin += 64) {
    const uint64_t word = begin / 64 < words_.size() ? words_[begin / 64] : 0;
    const std::span<float> part = logits.subspan(begin, std::min<size_t>(64, logits.size() - begin));
    if (word == ~uint64_t{0}) continue;
    for (size_t i = 0; i < part.size(); ++i)
      if (!(word >> i & 1)) part[i] = kForbidden;
  }
}

struct TokenGrammar::Request {
  GrammarStepper& stepper;
  FrameTable& frames;
  TokenSet& tokens;
  std::unordered_set<uint64_t> done;  // walks that went on, by walk and frame
  std::unordered_map<FrameId, std::vector<Top>> after_return;
};

size_t TokenGrammar::Walk::bytes() const {
  return sizeof(Walk) + 64 + few.size() * sizeof(int32_t) + ends.size() * sizeof(uint32_t) + (many ? many->bytes() : 0);
}

TokenGrammar::TokenGrammar(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenTrie> trie)
    : grammar_(std::move(grammar)), trie_(std::move(trie)), stepper_(*grammar_) {}

void TokenGrammar::reset() const {
  automaton_ = {};
  walks_.clear();
  walk_bytes_ = 0;
}

size_t TokenGrammar::cached_bytes() const {
  const std::lock_guard lock(mutex_);
  return walk_bytes_ + automaton_.table.size() * sizeof(int32_t);
}

void TokenGrammar::allowed(const GrammarState& state, GrammarStepper& stepper, FrameTable& frames,
                           TokenSet& tokens) const {
  const std::lock_guard lock(mutex_);
  if (automaton_.states.size() > kKeptStates || walk_bytes_ > kKeptBytes) reset();
  stepper_.set_budget(GrammarStepper::kBudget);
  stepper.set_budget(GrammarStepper::kBudget);
  Request request{stepper, frames, tokens, {}, {}};
  from(request, TokenTrie::kRoot, tops_of(state));
}

// Items are in order of frames.
std::vector<TokenGrammar::Top> TokenGrammar::tops_of(const GrammarState& state) const {
  std::vector<Top> tops;
  for (size_t i = 0; i < state.items.size();) {
    const FrameId frame = state.items[i].frame;
    GrammarState top;
    for (; i < state.items.size() && state.items[i].frame == frame; ++i)
      top.items.push_back({FrameTable::kBottom, state.items[i].node});
    tops.push_back({number_of(std::move(top)), frame});
  }
  return tops;
}

// Recursion is bounded by the longest token: each level down has read a byte more.
void TokenGrammar::from(Request& request, uint32_t node, const std::vector<Top>& tops) const {
  for (const Top& top : tops) {
    const Walk& found = walk(top.state, node);
    for (const int32_t id : found.few) request.tokens.add(id);
    if (found.many) request.tokens.add_all(*found.many);
    if (top.frame == FrameTable::kBottom || found.ends.empty()) continue;
    if (!request.done.insert(uint64_t(found.number) << 32 | uint32_t(top.frame)).second) continue;
    const auto [at, fresh] = request.after_return.try_emplace(top.frame);
    if (fresh) at->second = tops_of(request.stepper.after_return(top.frame, request.frames));
    for (const uint32_t end : found.ends) from(request, end, at->second);
  }
}

int32_t TokenGrammar::number_of(GrammarState state) const {
  if (state.dead()) return kDead;
  Automaton& a = automaton_;
  const uint64_t hash = hash_items(state.items, state.may_end);
  const auto [first, last] = a.index.equal_range(hash);
  for (auto at = first; at != last; ++at)
    if (a.states[size_t(at->second)] == state) return at->second;
  if (a.states.size() >= kMaxStates)
    throw error(Code::kUnsupported, "the grammar has more than {} states for one token; make it less ambiguous",
                kMaxStates);
  a.states.push_back(std::move(state));
  a.table.resize(a.table.size() + grammar_->byte_classes(), kUnknown);
  const int32_t number = int32_t(a.states.size() - 1);
  a.index.emplace(hash, number);
  return number;
}

int32_t TokenGrammar::step(int32_t state, uint8_t byte) const {
  const size_t cell = size_t(state) * grammar_->byte_classes() + grammar_->byte_class(byte);
  if (automaton_.table[cell] == kUnknown) {
    const int32_t next = number_of(stepper_.after(automaton_.states[size_t(state)], byte, automaton_.frames));
    automaton_.table[cell] = next;
  }
  return automaton_.table[cell];
}

const TokenGrammar::Walk& TokenGrammar::walk(int32_t state, uint32_t root) const {
  std::unique_ptr<Walk>& known = walks_[uint64_t(uint32_t(state)) << 32 | root];
  if (known) return *known;
  auto found = std::make_unique<Walk>();
  found->number = uint32_t(walks_.size());
  const TokenTrie& trie = *trie_;
  const uint16_t base = trie.depth(root);
  std::vector<int32_t> states(size_t(trie.max_depth() - base) + 1);  // by depth
  states[0] = state;
  for (uint32_t node = root + 1; node < trie.end(root);) {
    const size_t depth = size_t(trie.depth(node) - base);
    const int32_t next = step(states[depth - 1], trie.byte(node));
    if (next == kDead) {
      node = trie.end(node);
      continue;
    }
    states[depth] = next;
    const auto ids = trie.tokens(node);
    found->few.insert(found->few.end(), ids.begin(), ids.end());
    const GrammarState& now = automaton_.states[size_t(next)];
    if (now.may_end && trie.has_children(node)) found->ends.push_back(node);
    node = now.items.empty() ? trie.end(node) : node + 1;
  }
  if (found->few.size() * 32 > size_t(trie.vocab_size())) {  // a set is smaller
    found->many = std::make_unique<TokenSet>(trie.vocab_size());
    for (const int32_t id : found->few) found->many->add(id);
    found->few = {};
  }
  walk_bytes_ += found->bytes();
  known = std::move(found);
  return *known;
}

}  // namespace espalier
