// TokenGrammar: a grammar and a vocabulary, and from them the tokens that may come next.
//
// The vocabulary is a tree of bytes (text/token_trie.h) that is walked together with the grammar. Most of what a walk
// finds depends on where the top of the stack stands and not on what lies below: inside a string, the same tokens are
// allowed however deep it is nested. So a walk goes on only until the topmost rule ends, and what it found is kept: the
// tokens allowed, and the tree nodes where the rule ended, from which the rule below walks on (the idea of XGrammar:
// Dong et al. 2024). Walks step through an automaton that is made as it is needed, a row of a table for each set of
// ways.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "text/grammar_state.h"
#include "text/token_trie.h"

namespace espalier {

/// A set of token ids.
class TokenSet {
 public:
  explicit TokenSet(int64_t size = 0) : words_(size_t(size + 63) / 64) {}
  void add(int32_t id) { words_[size_t(id) / 64] |= uint64_t{1} << (id % 64); }
  bool has(int32_t id) const {
    return id >= 0 && size_t(id) / 64 < words_.size() && words_[size_t(id) / 64] >> (id % 64) & 1;
  }
  void add_all(const TokenSet& other) {
    for (size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
  }
  void clear() { words_.assign(words_.size(), 0); }
  bool empty() const;
  size_t count() const;
  size_t bytes() const { return words_.size() * sizeof(uint64_t); }
  /// Sets logits of ids outside the set to -infinity.
  void mask(std::span<float> logits) const;

 private:
  std::vector<uint64_t> words_;
};

/// May be shared by any number of requests and threads; they find what others found.
class TokenGrammar {
 public:
  TokenGrammar(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenTrie> trie);

  const Grammar& grammar() const { return *grammar_; }
  const TokenTrie& trie() const { return *trie_; }

  /// Adds the tokens all of whose bytes can follow in this state. `frames` are the state's. Throws Error kUnsupported
  /// where the grammar can be read in too many ways.
  void allowed(const GrammarState& state, GrammarStepper& stepper, FrameTable& frames, TokenSet& tokens) const;

  /// Bytes held by what was found so far; bounded.
  size_t cached_bytes() const;

 private:
  // What a walk found from one node of the tree on, with the topmost rule in one state.
  struct Walk {
    uint32_t number;
    std::vector<int32_t> few;      // ids, or
    std::unique_ptr<TokenSet> many;
    std::vector<uint32_t> ends;    // nodes with descendants where the rule has ended
    size_t bytes() const;
  };
  // The automaton of topmost rules. State k goes to table[k * classes + class of a byte].
  struct Automaton {
    FrameTable frames;
    std::vector<GrammarState> states;
    std::unordered_multimap<uint64_t, int32_t> index;
    std::vector<int32_t> table;
  };
  // The ways of a state with one topmost frame: their number in the automaton, and that frame.
  struct Top {
    int32_t state;
    FrameId frame;
  };
  struct Request;  // one call of allowed()

  std::vector<Top> tops_of(const GrammarState& state) const;
  void from(Request& request, uint32_t node, const std::vector<Top>& tops) const;
  const Walk& walk(int32_t state, uint32_t node) const;
  int32_t number_of(GrammarState state) const;
  int32_t step(int32_t state, uint8_t byte) const;
  void reset() const;

  std::shared_ptr<const Grammar> grammar_;
  std::shared_ptr<const TokenTrie> trie_;
  mutable std::mutex mutex_;  // of all below
  mutable GrammarStepper stepper_;
  mutable Automaton automaton_;
  mutable std::unordered_map<uint64_t, std::unique_ptr<Walk>> walks_;  // by state and node
  mutable size_t walk_bytes_ = 0;
};

}  // namespace espalier
