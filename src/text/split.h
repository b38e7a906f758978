// The pre-tokenizer patterns of the field, written by hand: where does the piece end that starts here? Pieces tile the
// text, and byte pairs are merged inside a piece only. Each function equals its regex (split_test.cc compares them with
// PCRE2 on random text) and is about ten times faster. Any other pattern goes to text/regex.h.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace espalier {

/// The end of the piece that starts at `begin`, which is less than `end`; the text is well-formed UTF-8. `classes` is
/// char_classes().
using PieceEnd = const uint8_t* (*)(const uint8_t* begin, const uint8_t* end, const uint8_t* classes);

/// A pattern with a hand-written splitter.
struct SplitPattern {
  const char* name;   ///< "gpt2", "llama3", "qwen2"
  const char* regex;  ///< as tokenizer.json writes it
  PieceEnd piece_end;
};

/// GPT-2 (also what `ByteLevel` with use_regex means).
extern const SplitPattern kGpt2Split;
/// Llama 3: numbers in threes, newlines on their own, contractions in either case.
extern const SplitPattern kLlama3Split;
/// Qwen 2: Llama 3's with single digits.
extern const SplitPattern kQwen2Split;

/// The pattern with this name or this regex; null where there is none.
const SplitPattern* find_split_by_name(std::string_view name);
const SplitPattern* find_split_by_regex(std::string_view regex);

/// The last place at which the text may be cut such that the pieces of the two parts are those of the whole, for each
/// of these patterns: before a space or tab behind another visible ASCII character; 0 where there is none. No pattern
/// goes on from a visible character to a space, and the left part does not end with white space, whose splitting looks
/// ahead.
size_t last_safe_cut(std::string_view text);

/// Calls fn(begin, end) with the byte offsets of each piece, in order.
template <class F>
void for_each_piece(std::string_view text, PieceEnd piece_end, const uint8_t* classes, F&& fn) {
  const auto* const start = reinterpret_cast<const uint8_t*>(text.data());
  const uint8_t* const end = start + text.size();
  for (const uint8_t* p = start; p < end;) {
    const uint8_t* const next = piece_end(p, end, classes);
    fn(size_t(p - start), size_t(next - start));
    p = next;
  }
}

}  // namespace espalier
