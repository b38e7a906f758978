// Byte-pair encoding of one piece: start from the tokens of its bytes, or of its characters, and merge, again and
// again, the pair of neighbours whose merge comes first in the list (of several, the leftmost). Short pieces scan for
// it, long ones keep a heap; both give what the `tokenizers` library gives, also for lists that no training would
// produce.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/char_starts.h"
#include "text/char_table.h"

namespace espalier {

/// A token of a piece and the byte at which it starts; it ends where the next one starts.
struct Symbol {
  int32_t id;
  uint32_t begin;
};

/// Memory that encoding reuses; one a thread.
struct BpeScratch {
  std::vector<Symbol> symbols;
  std::vector<uint32_t> ranks, results, previous, next;
  std::vector<uint64_t> keys;
};

/// The tokens that a piece starts as.
struct BpeAlphabet {
  std::array<int32_t, 256> byte_ids;  ///< the token of each byte, or -1
  bool of_chars = false;  ///< a piece starts as its characters; byte_ids then serve the characters that are no token
  CharTable char_ids;     ///< the token of each character, for of_chars
  /// What is in no table becomes `unknown`, or vanishes where that is -1; with fuse_unknown a row of them is one token.
  int32_t unknown = -1;
  bool fuse_unknown = false;

  BpeAlphabet() { byte_ids.fill(-1); }
};

class Bpe {
 public:
  /// Of two merges of the same pair the later counts, as in the library.
  Bpe(BpeAlphabet alphabet, const std::vector<Merge>& merges);
  Bpe() = default;

  /// Encodes a piece into scratch.symbols.
  void encode(std::string_view piece, BpeScratch& scratch) const;

 private:
  struct Slot {
    uint64_t pair;
    uint32_t rank, result;
  };
  static constexpr uint64_t kFree = ~uint64_t{0};
  static constexpr uint32_t kNoRank = ~uint32_t{0};

  const Slot* find(int32_t left, int32_t right) const;
  void start(std::string_view piece, std::vector<Symbol>& symbols) const;
  void start_with_chars(std::string_view piece, std::vector<Symbol>& symbols) const;
  bool add_bytes(std::string_view character, uint32_t& at, std::vector<Symbol>& symbols) const;
  void rank_pair(BpeScratch& scratch, size_t left, size_t right) const;
  void link(BpeScratch& scratch) const;
  uint32_t merge_at(BpeScratch& scratch, uint32_t at) const;
  void merge_by_scan(BpeScratch& scratch) const;
  void merge_by_heap(BpeScratch& scratch) const;

  BpeAlphabet alphabet_;
  CharStarts chars_;
  std::vector<Slot> table_;  // open addressing, a power of two
  // A byte of each slot's hash, 0 for a free one: most pairs are no merge, and this says so within the caches.
  std::vector<uint8_t> tags_;
  int shift_ = 63;
};

}  // namespace espalier
