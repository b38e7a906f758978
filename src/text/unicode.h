// Unicode classes of code points: as the pre-tokenizer patterns see them, \p{L}, \p{N} and \s of Oniguruma, the regex
// engine behind the `tokenizers` library; and as that library's other parts do.
#pragma once
#include <cstdint>

namespace espalier {

enum CharClass : uint8_t { kOther = 0, kLetter = 1, kNumber = 2, kSpace = 3 };

/// Code points from here on are kOther: nothing is assigned there, or marks and private use only.
constexpr uint32_t kClassTableSize = 0x32400;

/// One CharClass a code point below kClassTableSize; built once per process (about a millisecond) from utf8proc's
/// categories and the letters and numbers that Unicode 15.1 and 16.0 added, since Oniguruma 6.9.10 knows those.
const uint8_t* char_classes();

inline uint8_t class_of(const uint8_t* classes, uint32_t code_point) {
  return code_point < kClassTableSize ? classes[code_point] : uint8_t{kOther};
}

/// White_Space: the separators and six controls.
bool is_white_space(uint32_t code_point);
/// \w of Rust's regex crate: letters, marks, decimal and letter numbers, connectors, joiners.
bool is_word_character(uint32_t code_point);
/// ASCII punctuation and the categories P* of Unicode 8.0, as the `tokenizers` library has them.
bool is_punctuation(uint32_t code_point);
/// The categories M*.
bool is_mark(uint32_t code_point);

}  // namespace espalier
