#include "text/piece_cache.h"

#include <cstring>

#include "base/file.h"

namespace espalier {
namespace {

constexpr size_t kFirstSlots = size_t{1} << 12;
constexpr size_t kMaxSlots = size_t{1} << 19;  // 16 MiB
constexpr size_t kMaxSide = size_t{1} << 23;   // bytes of long pieces; as many ids
constexpr uint64_t kLongMark = 0xFF;

}  // namespace

// A short piece is its bytes, zero-padded, with the length in the top byte; a long one its hash, with 0xFF there.
PieceCache::Key PieceCache::key(std::string_view piece, size_t readable) {
  const size_t n = piece.size();
  if (n > kInline) return {hash64(piece), kLongMark << 56 | uint64_t{n} << 32};
  uint64_t words[2] = {0, 0};
  if (readable >= 16) {
    std::memcpy(words, piece.data(), 16);
    const uint64_t keep = n & 7 ? ~uint64_t{0} >> (64 - 8 * (n & 7)) : 0;
    if (n >= 8) {
      words[1] &= keep;
    } else {
      words[0] &= keep;
      words[1] = 0;
    }
  } else {
    std::memcpy(words, piece.data(), n);
  }
  return {words[0], words[1] | uint64_t{n} << 56};
}

inline size_t PieceCache::home(Key key) const {
  const auto product = static_cast<unsigned __int128>(key.low ^ 0x9E3779B97F4A7C15u) * (key.high ^ 0xE7037ED1A0B428DBu);
  return size_t(uint64_t(product) ^ uint64_t(product >> 64)) & (slots_.size() - 1);
}

// For a long piece the low half of `high` is where its bytes are kept.
inline bool PieceCache::same(const Slot& slot, Key key, std::string_view piece) const {
  if (slot.low != key.low) return false;
  if (key.high >> 56 != kLongMark) return slot.high == key.high;
  return slot.high >> 32 == key.high >> 32 &&
         std::memcmp(long_pieces_.data() + uint32_t(slot.high), piece.data(), piece.size()) == 0;
}

bool PieceCache::append(Key key, std::string_view piece, std::vector<int32_t>& ids) const {
  for (size_t i = home(key);; i = (i + 1) & (slots_.size() - 1)) {
    const Slot& slot = slots_[i];
    if (slot.count == 0) return false;
    if (!same(slot, key, piece)) continue;
    const uint32_t count = slot.count - 1;
    if (count == 1) {
      ids.push_back(slot.ids[0]);
    } else {
      const int32_t* from = count <= 3 ? slot.ids : long_ids_.data() + slot.ids[0];
      ids.insert(ids.end(), from, from + count);
    }
    return true;
  }
}

void PieceCache::insert(Key key, std::string_view piece, const int32_t* ids, size_t count) {
  if (long_pieces_.size() > kMaxSide || long_ids_.size() > kMaxSide) clear();
  if ((used_ + 1) * 2 > slots_.size()) grow();
  size_t i = home(key);
  while (slots_[i].count != 0) i = (i + 1) & (slots_.size() - 1);
  Slot& slot = slots_[i];
  slot.low = key.low;
  slot.high = key.high;
  slot.count = uint32_t(count) + 1;
  if (key.high >> 56 == kLongMark) {
    slot.high |= long_pieces_.size();
    long_pieces_ += piece;
  }
  if (count <= 3) {
    std::copy(ids, ids + count, slot.ids);
  } else {
    slot.ids[0] = int32_t(long_ids_.size());
    long_ids_.insert(long_ids_.end(), ids, ids + count);
  }
  ++used_;
}

void PieceCache::grow() {
  if (slots_.size() == kMaxSlots) return clear();
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.count == 0) continue;
    // A long piece's key has zeros where the slot keeps the place of its bytes.
    const bool is_long = slot.high >> 56 == kLongMark;
    size_t i = home({slot.low, is_long ? slot.high >> 32 << 32 : slot.high});
    while (slots_[i].count != 0) i = (i + 1) & (slots_.size() - 1);
    slots_[i] = slot;
  }
}

void PieceCache::clear() {
  slots_.assign(kFirstSlots, Slot());
  used_ = 0;
  long_pieces_.clear();
  long_ids_.clear();
}

size_t PieceCache::bytes() const {
  return slots_.capacity() * sizeof(Slot) + long_pieces_.capacity() + long_ids_.capacity() * sizeof(int32_t);
}

}  // namespace espalier
