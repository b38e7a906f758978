#include "text/char_starts.h"

#include <algorithm>
#include <unordered_map>

#include "text/utf8.h"

namespace espalier {
namespace {

constexpr uint32_t kNever = ~uint32_t{0};
constexpr uint32_t kCharacters = 0x10000;

bool is_continuation(uint8_t byte) { return (byte & 0xC0) == 0x80; }

/// What of a token's bytes matters.
struct Spelling {
  uint32_t size = 0;  // 0: not known; 4: four and more
  std::array<uint8_t, 3> bytes = {};
  uint8_t last = 0;

  std::string_view view() const { return {reinterpret_cast<const char*>(bytes.data()), size}; }
};

Spelling joined(const Spelling& left, const Spelling& right) {
  Spelling both{std::min(left.size + right.size, 4u), left.bytes, right.last};
  for (uint32_t i = left.size; i < std::min(both.size, 3u); ++i) both.bytes[i] = right.bytes[i - left.size];
  return both;
}

}  // namespace

struct CharStarts::Builder {
  const std::vector<Merge>& merges;
  std::vector<Spelling> spellings;           // by id
  std::vector<uint32_t> last_made;           // by id: the highest rank of a merge that makes it, plus one
  std::unordered_map<uint64_t, uint32_t> small_ranks;  // of the merges within a character
  // The lowest rank of a merge of a part of a character with what stands beside it, by the neighbour's class.
  std::unordered_map<int32_t, std::array<uint32_t, kRightClasses>> with_right;
  std::unordered_map<int32_t, std::array<uint32_t, 2>> with_left;

  static uint64_t pair(int32_t left, int32_t right) { return uint64_t(uint32_t(left)) << 32 | uint32_t(right); }

  Builder(const std::array<int32_t, 256>& byte_ids, const std::vector<Merge>& list) : merges(list) {
    int32_t largest = *std::max_element(byte_ids.begin(), byte_ids.end());
    for (const Merge& merge : merges) largest = std::max({largest, merge.left, merge.right, merge.result});
    spellings.resize(size_t(largest) + 1);
    last_made.resize(size_t(largest) + 1);
    for (int byte = 0; byte < 256; ++byte) {
      const int32_t id = byte_ids[size_t(byte)];
      if (id >= 0) spellings[size_t(id)] = {1, {uint8_t(byte)}, uint8_t(byte)};
    }
  }

  /// Whether each merge stands behind those that make its parts, and no pair is listed twice.
  bool in_order() {
    for (size_t rank = 0; rank < merges.size(); ++rank) {
      const Merge& merge = merges[rank];
      const Spelling &left = spellings[size_t(merge.left)], &right = spellings[size_t(merge.right)];
      if (left.size == 0 || right.size == 0) return false;
      spellings[size_t(merge.result)] = joined(left, right);
      last_made[size_t(merge.result)] = uint32_t(rank) + 1;
    }
    std::vector<uint64_t> pairs;
    pairs.reserve(merges.size());
    for (size_t rank = 0; rank < merges.size(); ++rank) {
      const Merge& merge = merges[rank];
      if (std::max(last_made[size_t(merge.left)], last_made[size_t(merge.right)]) > rank) return false;
      pairs.push_back(pair(merge.left, merge.right));
    }
    std::sort(pairs.begin(), pairs.end());
    return std::adjacent_find(pairs.begin(), pairs.end()) == pairs.end();
  }

  void note_ranks() {
    const auto note = [](auto& lowest, int32_t id, size_t neighbour, size_t rank) {
      auto [place, fresh] = lowest.try_emplace(id);
      if (fresh) place->second.fill(kNever);
      place->second[neighbour] = std::min(place->second[neighbour], uint32_t(rank));
    };
    for (size_t rank = 0; rank < merges.size(); ++rank) {
      const Merge& merge = merges[rank];
      const Spelling &left = spellings[size_t(merge.left)], &right = spellings[size_t(merge.right)];
      if (is_continuation(right.bytes[0])) {
        if (left.size + right.size <= 3) small_ranks.emplace(pair(merge.left, merge.right), uint32_t(rank));
      } else {
        if (left.size <= 2) note(with_right, merge.left, size_t(right_class(right.bytes[0])), rank);
        if (right.size <= 2) note(with_left, merge.right, size_t(left.last >= 0x80), rank);
      }
    }
  }

  /// Follows BPE through the bytes of one character. The neighbours that it may have, or 0 where it does not become
  /// the token.
  uint32_t neighbours_of(const Spelling& character, const std::array<int32_t, 256>& byte_ids, int32_t token) const {
    std::vector<int32_t> symbols, firsts, lasts;
    for (const char byte : character.view()) symbols.push_back(byte_ids[uint8_t(byte)]);
    uint32_t last_rank = 0;
    while (symbols.size() > 1) {
      firsts.push_back(symbols.front());
      lasts.push_back(symbols.back());
      uint32_t best = kNever;
      size_t at = 0;
      for (size_t i = 0; i + 1 < symbols.size(); ++i) {
        const auto found = small_ranks.find(pair(symbols[i], symbols[i + 1]));
        if (found != small_ranks.end() && found->second < best) best = found->second, at = i;
      }
      if (best == kNever) return 0;
      last_rank = best;
      symbols[at] = merges[best].result;
      symbols.erase(symbols.begin() + ptrdiff_t(at) + 1);
    }
    if (symbols[0] != token) return 0;
    return allowed(firsts, lasts, last_rank);
  }

  uint32_t allowed(const std::vector<int32_t>& firsts, const std::vector<int32_t>& lasts, uint32_t last_rank) const {
    uint32_t neighbours = kAsciiLeft | kOtherLeft | ((uint32_t{1} << kRightClasses) - 1);
    for (const int32_t first : firsts) {
      const auto found = with_left.find(first);
      if (found == with_left.end()) continue;
      if (found->second[0] < last_rank) neighbours &= ~kAsciiLeft;
      if (found->second[1] < last_rank) neighbours &= ~kOtherLeft;
    }
    for (const int32_t last : lasts) {
      const auto found = with_right.find(last);
      if (found == with_right.end()) continue;
      for (int i = 0; i < kRightClasses; ++i)
        if (found->second[size_t(i)] < last_rank) neighbours &= ~(uint32_t{1} << i);
    }
    return neighbours;
  }
};

CharStarts::CharStarts(const std::array<int32_t, 256>& byte_ids, const std::vector<Merge>& merges) {
  Builder builder(byte_ids, merges);
  if (!builder.in_order()) return;
  builder.note_ranks();
  for (const Merge& merge : merges) {
    const Spelling& spelling = builder.spellings[size_t(merge.result)];
    if (spelling.size < 2 || spelling.size > 3) continue;
    const Utf8Step step = utf8_step(spelling.view());
    if (step.kind != Utf8Step::kValid || step.length != int(spelling.size)) continue;
    const uint32_t neighbours = builder.neighbours_of(spelling, byte_ids, merge.result);
    if (neighbours == 0) continue;
    if (entries_.empty()) entries_.resize(kCharacters);
    int length;
    entries_[utf8_decode(spelling.bytes.data(), length)] = {merge.result, neighbours};
  }
}

}  // namespace espalier
