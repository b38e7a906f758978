// The Unicode normalization forms, with the change of each character (text/tracked_text.h), in which utf8proc's own
// function does not say what came from where. Tables are utf8proc's, but for the characters whose decomposition is
// newer than Unicode 12.0, which the `tokenizers` library goes by: to them nothing happens.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/tracked_text.h"

namespace espalier {

enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };

/// The characters of a well-formed text in this form.
std::vector<CharChange> unicode_form(std::string_view text, UnicodeForm form);

/// Whether a text is surely in this form already; false where a closer look is needed. ASCII always is; for NFC a
/// table of characters tells most others.
bool surely_in_form(std::string_view text, UnicodeForm form);

/// Full lower case of a character, as in Rust: one code point but for U+0130.
std::vector<uint32_t> lower_case(uint32_t code_point);

}  // namespace espalier
