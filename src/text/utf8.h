// UTF-8: checking, decoding, and the repair of ill-formed text. Text from outside may hold anything; everything after
// the first function of the tokenizer works on well-formed UTF-8 only.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace espalier {

/// Whether the whole text is well-formed UTF-8 (no surrogates, no overlong forms, nothing above U+10FFFF).
bool is_utf8(std::string_view text);

/// What stands at the start of some bytes.
struct Utf8Step {
  enum Kind { kValid, kInvalid, kIncomplete } kind;
  /// Bytes of the character; of the maximal ill-formed subpart; or of the part that more bytes may complete.
  int length;
};

/// Looks at the first character of a non-empty text. kIncomplete only where the text ends inside a sequence that is
/// well formed so far. The rule is Unicode's "substitution of maximal subparts", which CPython's errors="replace" and
/// Rust's from_utf8_lossy follow: one U+FFFD for each.
Utf8Step utf8_step(std::string_view text);

/// The code point at p, which must be well formed; sets its length in bytes.
inline uint32_t utf8_decode(const uint8_t* p, int& length) {
  if (p[0] < 0x80) return length = 1, p[0];
  if (p[0] < 0xE0) return length = 2, uint32_t(p[0] & 31) << 6 | (p[1] & 63);
  if (p[0] < 0xF0) return length = 3, uint32_t(p[0] & 15) << 12 | uint32_t(p[1] & 63) << 6 | (p[2] & 63);
  length = 4;
  return uint32_t(p[0] & 7) << 18 | uint32_t(p[1] & 63) << 12 | uint32_t(p[2] & 63) << 6 | (p[3] & 63);
}

/// Appends the UTF-8 form of a code point below 0x110000.
void append_utf8(std::string& out, uint32_t code_point);

/// Moves the characters out of `bytes` that more bytes cannot change; ill-formed ones become U+FFFD. What is left is
/// empty or the start of a character.
std::string take_characters(std::string& bytes);

/// Well-formed text, and where each part of it came from.
struct RepairedText {
  std::string text;
  /// Places behind which offsets shift: (offset in `text`, offset in the source), ascending, the first (0, 0).
  struct Anchor { uint32_t here, source; };
  std::vector<Anchor> anchors;

  /// The source's offset of an offset in `text`. Inside a replacement character: the start of what it replaces.
  uint32_t source_offset(uint32_t here) const;
};

/// Replaces each maximal ill-formed subpart by U+FFFD. The text must be shorter than 1 GiB.
RepairedText repair_utf8(std::string_view text);

}  // namespace espalier
