// A text that normalizers and pre-tokenizers change step by step, and where each of its bytes came from. Alignment
// follows the `tokenizers` library: what is put in place of a character covers that character, what is put in addition
// covers the character before it.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace espalier {

/// A stretch of a text, in bytes.
struct Span {
  uint32_t begin, end;
};

struct TrackedText {
  std::string text;
  std::vector<Span> origin;  ///< one a byte of `text`: the bytes of the source it stands for; empty if not tracked
  bool tracked = false;

  TrackedText() = default;
  /// The source itself, of which `text` starts at byte `offset`.
  TrackedText(std::string_view text, uint32_t offset, bool tracked);

  /// The source's bytes that text[begin, end) stands for; not empty; tracked.
  Span source(size_t begin, size_t end) const { return {origin[begin].begin, origin[end - 1].end}; }
  /// A part of the text.
  TrackedText slice(Span part) const;
};

/// Builds the next state of a text from the one before, which it must not outlive.
class TextEdit {
 public:
  explicit TextEdit(const TrackedText& from);

  /// Goes on with from[begin, end).
  void keep(size_t begin, size_t end);
  /// Goes on with `content`, aligned with from[begin, end); where that is empty, with what lies before it.
  void put(std::string_view content, size_t begin, size_t end);
  /// The same with the character that ends at `end`.
  void put_behind(std::string_view content, size_t end);

  /// Bytes so far.
  size_t size() const { return to_.text.size(); }
  TrackedText take() { return std::move(to_); }

 private:
  const TrackedText& from_;
  TrackedText to_;
};

/// A character of a new text and how many more (1: it is an additional one) or fewer (-n: it takes in the n characters
/// behind the one it replaces) characters of the old text it stands for.
struct CharChange {
  uint32_t code_point;
  int change;
};

/// Replaces the whole text by these characters.
void change_chars(TrackedText& text, const std::vector<CharChange>& chars);

}  // namespace espalier
