#include "text/bpe.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "base/check.h"
#include "text/utf8.h"

namespace espalier {
namespace {

// Up to here scanning all pairs for the best is faster than the heap (measured on letters of source code: 1.5 times at
// 8 to 32 bytes, equal near 110).
constexpr size_t kScanMax = 96;

uint64_t pair_key(int32_t left, int32_t right) { return uint64_t(uint32_t(left)) << 32 | uint32_t(right); }
/// Nonzero, of bits that choose no slot.
uint8_t tag_of(uint64_t hash) { return uint8_t(0x80 | hash); }
uint64_t scramble(uint64_t key) { return (key ^ key >> 32) * 0x9E3779B97F4A7C15u; }

}  // namespace

Bpe::Bpe(BpeAlphabet alphabet, const std::vector<Merge>& merges) : alphabet_(std::move(alphabet)) {
  if (!alphabet_.of_chars) chars_ = CharStarts(alphabet_.byte_ids, merges);
  const size_t slots = std::bit_ceil(merges.size() * 2 + 2);
  shift_ = 64 - std::countr_zero(slots);
  table_.assign(slots, {kFree, kNoRank, 0});
  tags_.assign(slots, 0);
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const Merge& merge = merges[rank];
    const uint64_t key = pair_key(merge.left, merge.right), hash = scramble(key);
    size_t slot = hash >> shift_;
    while (table_[slot].pair != kFree && table_[slot].pair != key) slot = (slot + 1) & (slots - 1);
    table_[slot] = {key, uint32_t(rank), uint32_t(merge.result)};
    tags_[slot] = tag_of(hash);
  }
}

inline const Bpe::Slot* Bpe::find(int32_t left, int32_t right) const {
  const uint64_t key = pair_key(left, right), hash = scramble(key);
  const uint8_t tag = tag_of(hash);
  for (size_t slot = hash >> shift_;; slot = (slot + 1) & (table_.size() - 1)) {
    if (tags_[slot] == 0) return nullptr;
    if (tags_[slot] == tag && table_[slot].pair == key) return &table_[slot];
  }
}

void Bpe::start(std::string_view piece, std::vector<Symbol>& symbols) const {
  symbols.clear();
  bool after_unknown = false;
  const auto* const bytes = reinterpret_cast<const uint8_t*>(piece.data());
  for (size_t i = 0; i < piece.size(); ++i) {
    if (bytes[i] >= 0x80 && !chars_.empty()) {
      const int32_t character = chars_.find(bytes, bytes + i, bytes + piece.size());
      if (character >= 0) {
        symbols.push_back({character, uint32_t(i)});
        i += bytes[i] < 0xE0 ? 1 : 2;
        after_unknown = false;
        continue;
      }
    }
    const int32_t id = alphabet_.byte_ids[bytes[i]];
    if (id >= 0) {
      symbols.push_back({id, uint32_t(i)});
    } else if (alphabet_.unknown >= 0 && !(alphabet_.fuse_unknown && after_unknown)) {
      symbols.push_back({alphabet_.unknown, uint32_t(i)});
    }
    after_unknown = id < 0;
  }
}

/// Adds the tokens of the bytes of a character, if all of them have one.
bool Bpe::add_bytes(std::string_view character, uint32_t& at, std::vector<Symbol>& symbols) const {
  for (const char byte : character)
    if (alphabet_.byte_ids[uint8_t(byte)] < 0) return false;
  for (const char byte : character) symbols.push_back({alphabet_.byte_ids[uint8_t(byte)], at++});
  return true;
}

// An unknown token waits until a known character follows. Bytes do not end the wait: where a vocabulary has the tokens
// of some bytes only, it then stands behind them. So it does in the library, and offsets follow the order of tokens.
void Bpe::start_with_chars(std::string_view piece, std::vector<Symbol>& symbols) const {
  symbols.clear();
  uint32_t at = 0, waiting = 0;  // offset of the next token; bytes of the unknown one that waits
  const auto flush = [&] {
    if (waiting > 0) symbols.push_back({alphabet_.unknown, at});
    at += waiting;
    waiting = 0;
  };
  int length;
  for (size_t i = 0; i < piece.size(); i += size_t(length)) {
    const uint32_t c = utf8_decode(reinterpret_cast<const uint8_t*>(piece.data()) + i, length);
    const int32_t id = alphabet_.char_ids.find(c);
    if (id >= 0) {
      flush();
      symbols.push_back({id, at});
      at += uint32_t(length);
    } else if (!add_bytes(piece.substr(i, size_t(length)), at, symbols)) {
      if (alphabet_.unknown < 0) {
        at += uint32_t(length);  // vanishes
        continue;
      }
      if (!alphabet_.fuse_unknown) flush();
      waiting += uint32_t(length);
    }
  }
  flush();
}

inline void Bpe::rank_pair(BpeScratch& scratch, size_t left, size_t right) const {
  const Slot* const merge = find(scratch.symbols[left].id, scratch.symbols[right].id);
  scratch.ranks[left] = merge ? merge->rank : kNoRank;
  scratch.results[left] = merge ? merge->result : 0;
}

void Bpe::encode(std::string_view piece, BpeScratch& scratch) const {
  ESP_CHECK(!table_.empty() && piece.size() < UINT32_MAX, "a piece of {} bytes", piece.size());
  if (alphabet_.of_chars) {
    start_with_chars(piece, scratch.symbols);
  } else {
    start(piece, scratch.symbols);
  }
  const size_t n = scratch.symbols.size();
  if (n < 2) return;
  scratch.ranks.assign(n, kNoRank);
  scratch.results.resize(n);
  for (size_t i = 0; i + 1 < n; ++i) rank_pair(scratch, i, i + 1);
  if (n <= kScanMax) {
    merge_by_scan(scratch);
  } else {
    merge_by_heap(scratch);
  }
}

/// A list of all symbols.
void Bpe::link(BpeScratch& scratch) const {
  const auto n = uint32_t(scratch.symbols.size());
  scratch.previous.resize(n);
  scratch.next.resize(n);
  for (uint32_t i = 0; i < n; ++i) {
    scratch.previous[i] = i - 1;  // wraps to a value >= n for the first
    scratch.next[i] = i + 1;
  }
}

/// Merges a symbol with the one behind it, which leaves the list with the id -1, and ranks the new neighbours. The
/// place of the one that left.
inline uint32_t Bpe::merge_at(BpeScratch& scratch, uint32_t at) const {
  auto& [symbols, ranks, results, previous, next, keys] = scratch;
  const auto n = uint32_t(symbols.size());
  const uint32_t right = next[at];
  symbols[at].id = int32_t(results[at]);
  symbols[right].id = -1;
  ranks[right] = kNoRank;
  next[at] = next[right];
  if (next[at] < n) {
    previous[next[at]] = at;
    rank_pair(scratch, at, next[at]);
  } else {
    ranks[at] = kNoRank;
  }
  if (previous[at] < n) rank_pair(scratch, previous[at], at);
  return right;
}

void Bpe::merge_by_scan(BpeScratch& scratch) const {
  auto& [symbols, ranks, results, previous, next, keys] = scratch;
  const auto n = uint32_t(symbols.size());
  link(scratch);
  keys.resize(n);  // the rank above the place: the smallest is the first of the best
  const auto set_key = [&](uint32_t at) { keys[at] = uint64_t{ranks[at]} << 32 | at; };
  for (uint32_t i = 0; i < n; ++i) set_key(i);
  for (;;) {
    uint64_t best = keys[0];
    for (uint32_t i = 1; i < n; ++i) best = std::min(best, keys[i]);
    if (best >> 32 == kNoRank) break;
    const auto at = uint32_t(best);
    set_key(merge_at(scratch, at));
    set_key(at);
    if (previous[at] < n) set_key(previous[at]);
  }
  std::erase_if(symbols, [](const Symbol& symbol) { return symbol.id < 0; });
}

void Bpe::merge_by_heap(BpeScratch& scratch) const {
  auto& [symbols, ranks, results, previous, next, heap] = scratch;
  const auto n = uint32_t(symbols.size());
  link(scratch);
  heap.clear();
  for (uint32_t i = 0; i < n; ++i)
    if (ranks[i] != kNoRank) heap.push_back(uint64_t{ranks[i]} << 32 | i);
  const auto push = [&](uint32_t at) {
    if (ranks[at] == kNoRank) return;
    heap.push_back(uint64_t{ranks[at]} << 32 | at);
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  while (!heap.empty()) {
    const auto at = uint32_t(heap.front()), rank = uint32_t(heap.front() >> 32);
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    heap.pop_back();
    if (ranks[at] != rank) continue;  // that pair is gone: merged, or one of the two has become part of another
    merge_at(scratch, at);
    push(at);
    if (previous[at] < n) push(previous[at]);
  }
  std::erase_if(symbols, [](const Symbol& symbol) { return symbol.id < 0; });
}

}  // namespace espalier
