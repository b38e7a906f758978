// Characters that byte-level BPE may start from. A Chinese character is three bytes, and nearly always the merges of
// its bytes come before all others that could touch them: then the piece may as well start with the character's token,
// a third of the symbols and a quarter of the look-ups. This table says where that is so.
//
// Why the ids stay the same. Let no merge stand in the list before one that makes a part of it; then the ranks that are
// applied in a piece never fall. Let r be the rank of the last merge that makes the character of its bytes, and let
// each merge of a proper part of it with a neighbour come behind r. Then up to r nothing but its own merges can take
// the character's bytes, and none of the merges of the whole character comes before r either: BPE passes through the
// state in which the character is one token and everything around it is as far as it would have been anyway. Neighbours
// are told apart by their nearest byte, since a vocabulary joins " \xE4" early and "\xAD\xE4" late or never.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "base/function_ref.h"

namespace espalier {

/// Two neighbouring tokens become one.
struct Merge {
  int32_t left, right, result;
};

class CharStarts {
 public:
  /// No character at all.
  CharStarts() = default;
  /// `byte_ids`: the token of each byte, or -1. Empty where the list of merges is not in such an order, or has a pair
  /// twice.
  CharStarts(const std::array<int32_t, 256>& byte_ids, const std::vector<Merge>& merges);

  bool empty() const { return entries_.empty(); }

  /// The token of the character of two or three bytes at p, where it may stand for them; otherwise -1. Any bytes may
  /// lie around it: from `begin` to `end`, p among them.
  int32_t find(const uint8_t* begin, const uint8_t* p, const uint8_t* end) const {
    const int length = *p < 0xE0 ? 2 : 3;
    if (*p < 0xC2 || *p >= 0xF0 || end - p < length) return -1;
    uint32_t c = *p & (length == 2 ? 31 : 15);
    for (int i = 1; i < length; ++i) {
      if ((p[i] & 0xC0) != 0x80) return -1;
      c = c << 6 | (p[i] & 63);
    }
    const Entry entry = entries_[c];
    const bool fits_left = p == begin || (entry.neighbours & (p[-1] < 0x80 ? kAsciiLeft : kOtherLeft));
    const bool fits_right = p + length == end || (entry.neighbours >> right_class(p[length]) & 1);
    return fits_left && fits_right ? entry.token : -1;
  }

 private:
  struct Entry {
    int32_t token = -1;
    uint32_t neighbours = 0;  // bit right_class(b): b may follow
  };
  static constexpr uint32_t kAsciiLeft = uint32_t{1} << 30, kOtherLeft = uint32_t{1} << 31;
  static constexpr int kRightClasses = 19;

  // ASCII, two-byte characters, each first byte of three-byte characters, longer ones; a continuation byte has a class
  // that is never set.
  static constexpr int right_class(uint8_t b) {
    return b < 0x80 ? 0 : b < 0xC0 ? kRightClasses : b < 0xE0 ? 1 : b < 0xF0 ? 2 + (b & 15) : kRightClasses - 1;
  }

  struct Builder;
  std::vector<Entry> entries_;  // by code point
};

}  // namespace espalier
