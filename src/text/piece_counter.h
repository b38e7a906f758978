// How often each piece of a corpus occurs: what training a BPE needs to know of its text. Memory grows with the number
// of distinct pieces, not with the text.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace espalier {

class PieceCounter {
 public:
  /// Counts `times` more occurrences of the piece.
  void add(std::string_view piece, uint64_t times = 1);
  /// Adds what another counter has counted.
  void add(const PieceCounter& other);

  /// Distinct pieces.
  size_t size() const { return used_; }

  /// Calls fn(piece, count) for each piece, in no order worth relying on.
  template <class F>
  void for_each(F&& fn) const {
    for (const Slot& slot : slots_)
      if (slot.count) fn(std::string_view(bytes_).substr(slot.begin, slot.size), slot.count);
  }

 private:
  struct Slot {
    uint64_t hash = 0, begin = 0, count = 0;
    size_t size = 0;
  };
  void add(std::string_view piece, uint64_t hash, uint64_t times);
  void grow();

  std::vector<Slot> slots_ = std::vector<Slot>(1 << 12);  // open addressing, a power of two
  size_t used_ = 0;
  std::string bytes_;
};

}  // namespace espalier
