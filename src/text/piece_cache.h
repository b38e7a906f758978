// Text repeats itself, so the ids of pieces are remembered. A slot of 32 bytes, two a cache line, holds a piece of up
// to 15 bytes and up to three ids in itself; longer ones point into side arrays. When the table is full it is emptied:
// frequent pieces are back at once, and memory stays bounded.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace espalier {

class PieceCache {
 public:
  /// A piece made ready for looking up.
  struct Key {
    uint64_t low, high;
  };

  PieceCache() { clear(); }

  /// Whether a piece is worth remembering: a short one, or a long one of ASCII (a line of dashes, an identifier). Long
  /// pieces of scripts that put no spaces hardly ever come again (2 % of them in Chinese).
  static bool keeps(std::string_view piece) {
    return piece.size() <= kInline || (piece.size() <= kLongest && uint8_t(piece[piece.size() / 2]) < 0x80);
  }

  /// The key of a piece. Reads 16 bytes at once where `readable`, the bytes from the piece's start to the end of its
  /// buffer, allow it.
  static Key key(std::string_view piece, size_t readable);

  /// Appends the ids of the piece and returns true, if they are known.
  bool append(Key key, std::string_view piece, std::vector<int32_t>& ids) const;

  /// Remembers the ids of a piece that is not there.
  void insert(Key key, std::string_view piece, const int32_t* ids, size_t count);

  void clear();
  size_t bytes() const;

 private:
  static constexpr size_t kInline = 15;
  static constexpr size_t kLongest = 256;
  struct Slot {
    uint64_t low = 0, high = 0;
    int32_t ids[3] = {0, 0, 0};
    uint32_t count = 0;  // of ids, plus one; 0 is a free slot
  };
  size_t home(Key key) const;
  bool same(const Slot& slot, Key key, std::string_view piece) const;
  void grow();

  std::vector<Slot> slots_;
  size_t used_ = 0;
  std::string long_pieces_;
  std::vector<int32_t> long_ids_;
};

}  // namespace espalier
