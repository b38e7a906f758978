#include "text/charsmap.h"

#include <cstring>

#include <utf8proc.h>

#include "base/error.h"
#include "text/base64.h"
#include "text/utf8.h"

namespace espalier {
namespace {

uint32_t char_at(std::string_view text, size_t at, int& length) {
  return utf8_decode(reinterpret_cast<const uint8_t*>(text.data()) + at, length);
}

size_t count_chars(std::string_view text) {
  size_t count = 0;
  for (const char c : text) count += (uint8_t(c) & 0xC0) != 0x80;
  return count;
}

/// The end of the grapheme cluster that starts at `at`.
size_t cluster_end(std::string_view text, size_t at) {
  int length, state = 0;
  uint32_t before = char_at(text, at, length);
  for (at += size_t(length); at < text.size(); at += size_t(length)) {
    const uint32_t c = char_at(text, at, length);
    if (utf8proc_grapheme_break_stateful(utf8proc_int32_t(before), utf8proc_int32_t(c), &state)) break;
    before = c;
  }
  return at;
}

/// The characters of a replacement. Additional ones stand last; the last of too few takes in the rest.
void add_replacement(std::string_view replacement, size_t old_count, std::vector<CharChange>& out) {
  int length;
  size_t count = 0;
  for (size_t at = 0; at < replacement.size(); at += size_t(length), ++count)
    out.push_back({char_at(replacement, at, length), count >= old_count});
  if (count < old_count && !out.empty()) out.back().change -= int(old_count - count);
}

}  // namespace

Charsmap::Charsmap(std::string_view blob, const std::string& what) {
  uint32_t trie_bytes = 0;
  if (blob.size() >= 4) std::memcpy(&trie_bytes, blob.data(), 4);
  if (blob.size() < 4 || trie_bytes % 4 != 0 || trie_bytes == 0 || trie_bytes > blob.size() - 4)
    throw error(Code::kBadData, "reading {}: precompiled_charsmap has {} bytes and a trie of {}; expected it to fit",
                what, blob.size(), trie_bytes);
  units_.resize(trie_bytes / 4);
  std::memcpy(units_.data(), blob.data() + 4, trie_bytes);
  replacements_ = blob.substr(4 + trie_bytes);
  if (!is_utf8(replacements_))
    throw error(Code::kBadData, "reading {}: the replacements of precompiled_charsmap are no UTF-8", what);
}

Charsmap Charsmap::from_base64(std::string_view text, Matching matching, const std::string& what) {
  const std::optional<std::string> bytes = espalier::from_base64(text);
  if (!bytes) throw error(Code::kBadData, "reading {}: precompiled_charsmap is no base64", what);
  Charsmap map(*bytes, what);
  map.matching_ = matching;
  return map;
}

std::optional<Charsmap::Match> Charsmap::find(std::string_view text, bool longest) const {
  const auto offset = [](uint32_t unit) { return size_t{unit >> 10} << ((unit & (1u << 9)) >> 6); };
  std::optional<Match> match;
  size_t node = offset(units_[0]);
  for (size_t i = 0; i < text.size() && text[i] != 0; ++i) {
    node ^= uint8_t(text[i]);
    if (node >= units_.size()) break;
    const uint32_t unit = units_[node];
    if ((unit & (1u << 31 | 0xFF)) != uint8_t(text[i])) break;
    node ^= offset(unit);
    if ((unit >> 8 & 1) == 0) continue;
    const size_t value = node < units_.size() ? units_[node] & ~(1u << 31) : replacements_.size();
    if (value >= replacements_.size() && !(value == 0 && node < units_.size())) break;
    // A damaged map may point into a character.
    if (value < replacements_.size() && (uint8_t(replacements_[value]) & 0xC0) == 0x80) break;
    const std::string_view rest = std::string_view(replacements_).substr(value);
    match = {rest.substr(0, rest.find('\0')), i + 1};
    if (!longest) break;
  }
  return match;
}

void Charsmap::apply(TrackedText& text) const {
  change_chars(text, matching_ == Matching::kLongest ? by_longest_keys(text.text) : by_clusters(text.text));
}

std::vector<CharChange> Charsmap::by_longest_keys(std::string_view old) const {
  std::vector<CharChange> chars;
  chars.reserve(old.size());
  for (size_t at = 0; at < old.size();) {
    int length;
    const uint32_t c = char_at(old, at, length);
    const std::optional<Match> match = find(old.substr(at), true);
    const size_t end = at + (match ? match->length : size_t(length));
    const bool whole = end == old.size() || (uint8_t(old[end]) & 0xC0) != 0x80;  // else the map is damaged
    if (match && whole) {
      add_replacement(match->replacement, count_chars(old.substr(at, match->length)), chars);
      at = end;
    } else {
      chars.push_back({c, 0});
      at += size_t(length);
    }
  }
  return chars;
}

std::vector<CharChange> Charsmap::by_clusters(std::string_view old) const {
  std::vector<CharChange> chars;
  chars.reserve(old.size());
  for (size_t at = 0, end; at < old.size(); at = end) {
    end = cluster_end(old, at);
    const std::string_view cluster = old.substr(at, end - at);
    const std::optional<Match> whole = cluster.size() < 6 ? find(cluster, false) : std::nullopt;
    if (whole) {
      add_replacement(whole->replacement, count_chars(cluster), chars);
      continue;
    }
    int length;
    for (size_t i = 0; i < cluster.size(); i += size_t(length)) {
      const uint32_t c = char_at(cluster, i, length);
      if (const std::optional<Match> match = find(cluster.substr(i, size_t(length)), false)) {
        add_replacement(match->replacement, 1, chars);
      } else {
        chars.push_back({c, 0});
      }
    }
  }
  return chars;
}

}  // namespace espalier
