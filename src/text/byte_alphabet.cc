#include "text/byte_alphabet.h"

#include <algorithm>

#include "text/utf8.h"

namespace espalier {
namespace {

constexpr uint32_t kChars = 0x100 + 68;

bool prints(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

/// The byte of each character, -1 where there is none.
const std::array<int16_t, kChars>& char_to_byte() {
  static const auto table = [] {
    std::array<int16_t, kChars> inverse;
    inverse.fill(-1);
    for (int byte = 0; byte < 256; ++byte) inverse[byte_to_char()[size_t(byte)]] = int16_t(byte);
    return inverse;
  }();
  return table;
}

}  // namespace

const std::array<uint16_t, 256>& byte_to_char() {
  static const auto table = [] {
    std::array<uint16_t, 256> chars;
    uint16_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) chars[size_t(byte)] = prints(byte) ? uint16_t(byte) : next++;
    return chars;
  }();
  return table;
}

const std::array<uint8_t, 256>& bytes_in_char_order() {
  static const auto table = [] {
    std::array<uint8_t, 256> bytes;
    for (int byte = 0; byte < 256; ++byte) bytes[size_t(byte)] = uint8_t(byte);
    std::sort(bytes.begin(), bytes.end(),
              [](uint8_t a, uint8_t b) { return byte_to_char()[a] < byte_to_char()[b]; });
    return bytes;
  }();
  return table;
}

std::string bytes_to_chars(std::string_view bytes) {
  std::string chars;
  for (const char byte : bytes) append_utf8(chars, byte_to_char()[uint8_t(byte)]);
  return chars;
}

std::optional<std::string> chars_to_bytes(std::string_view chars) {
  std::string bytes;
  const auto* p = reinterpret_cast<const uint8_t*>(chars.data());
  const auto* const end = p + chars.size();
  for (int length = 0; p < end; p += length) {
    const uint32_t c = utf8_decode(p, length);
    const int16_t byte = c < kChars ? char_to_byte()[c] : int16_t{-1};
    if (byte < 0) return std::nullopt;
    bytes += char(byte);
  }
  return bytes;
}

}  // namespace espalier
