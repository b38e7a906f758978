#include "text/piece_counter.h"

#include "base/file.h"

namespace espalier {

void PieceCounter::add(std::string_view piece, uint64_t times) { add(piece, hash64(piece), times); }

void PieceCounter::add(std::string_view piece, uint64_t hash, uint64_t times) {
  const size_t mask = slots_.size() - 1;
  size_t i = hash & mask;
  for (; slots_[i].count; i = (i + 1) & mask) {
    Slot& slot = slots_[i];
    if (slot.hash == hash && std::string_view(bytes_).substr(slot.begin, slot.size) == piece) {
      slot.count += times;
      return;
    }
  }
  slots_[i] = {hash, bytes_.size(), times, piece.size()};
  bytes_ += piece;
  if (++used_ * 2 > slots_.size()) grow();
}

void PieceCounter::add(const PieceCounter& other) {
  for (const Slot& slot : other.slots_)
    if (slot.count) add(std::string_view(other.bytes_).substr(slot.begin, slot.size), slot.hash, slot.count);
}

void PieceCounter::grow() {
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  const size_t mask = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (!slot.count) continue;
    size_t i = slot.hash & mask;
    while (slots_[i].count) i = (i + 1) & mask;
    slots_[i] = slot;
  }
}

}  // namespace espalier
