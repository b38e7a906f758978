#include "text/vocabulary.h"

#include <bit>

#include "base/check.h"
#include "base/file.h"
#include "text/byte_alphabet.h"

namespace espalier {

bool Vocabulary::add(int32_t id, std::string_view bytes, Kind kind) {
  ESP_CHECK(id >= 0 && id < kMaxVocabulary, "id {}", id);
  if (size_t(id) >= tokens_.size()) tokens_.resize(size_t(id) + 1);
  Token& token = tokens_[size_t(id)];
  if (token.kind != kHole) return false;
  ESP_CHECK(bytes_.size() + bytes.size() < UINT32_MAX, "tokens of {} bytes in all", bytes_.size());
  token = {uint32_t(bytes_.size()), uint32_t(bytes.size()), kind};
  bytes_ += bytes;
  return true;
}

std::string_view Vocabulary::bytes(int32_t id) const {
  if (!has(id)) return {};
  const Token& token = tokens_[size_t(id)];
  return std::string_view(bytes_).substr(token.begin, token.size);
}

std::string Vocabulary::text(int32_t id) const {
  return kind(id) == kBytes ? bytes_to_chars(bytes(id)) : std::string(bytes(id));
}

void Vocabulary::build_index() {
  index_.assign(std::bit_ceil(tokens_.size() * 2 + 1), -1);
  const size_t mask = index_.size() - 1;
  for (int32_t id = 0; id < int32_t(tokens_.size()); ++id) {
    if (!has(id)) continue;
    size_t slot = hash64(bytes(id), kind(id)) & mask;
    while (index_[slot] >= 0) slot = (slot + 1) & mask;
    index_[slot] = id;
  }
}

int32_t Vocabulary::find(std::string_view wanted, Kind wanted_kind, Part part) const {
  if (index_.empty()) return -1;
  const size_t mask = index_.size() - 1;
  for (size_t slot = hash64(wanted, wanted_kind) & mask; index_[slot] >= 0; slot = (slot + 1) & mask) {
    const int32_t id = index_[slot];
    if (part == kOfModel && outside(id)) continue;
    if (kind(id) == wanted_kind && bytes(id) == wanted) return id;
  }
  return -1;
}

std::optional<int32_t> Vocabulary::find_text(std::string_view text) const {
  int32_t id = find(text, kText);
  if (id < 0) {
    const std::optional<std::string> spelled = chars_to_bytes(text);
    if (spelled) id = find(*spelled, kBytes);
  }
  return id < 0 ? std::nullopt : std::optional(id);
}

uint64_t Vocabulary::hash() const {
  Hasher hasher;
  for (int32_t id = 0; id < int32_t(tokens_.size()); ++id) {
    if (!has(id)) continue;
    const Token& token = tokens_[size_t(id)];
    const uint32_t head[3] = {uint32_t(id), token.size, token.special};
    hasher.update(head, sizeof head);
    hasher.update(bytes_.data() + token.begin, token.size);
  }
  return hasher.digest();
}

}  // namespace espalier
