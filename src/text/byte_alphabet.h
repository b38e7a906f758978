// The byte alphabet of byte-level BPE: tokenizer.json is text, so GPT-2 writes each of the 256 bytes as one printable
// character. Printable Latin-1 bytes stand for themselves, the other 68 become U+0100 and up, in order.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace espalier {

/// The code point that stands for each byte.
const std::array<uint16_t, 256>& byte_to_char();

/// The bytes in the order of their characters: the order in which a trained vocabulary numbers them.
const std::array<uint8_t, 256>& bytes_in_char_order();

/// "Ġthe" for " the".
std::string bytes_to_chars(std::string_view bytes);

/// " the" for "Ġthe"; nothing where a character is none of the 256. `chars` is well-formed UTF-8.
std::optional<std::string> chars_to_bytes(std::string_view chars);

}  // namespace espalier
