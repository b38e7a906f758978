#include "text/unicode.h"

#include <array>

#include <utf8proc.h>

namespace espalier {
namespace {

struct Range {
  uint32_t first, last;
  CharClass char_class;
};

// Letters and numbers of Unicode 15.1 and 16.0; utf8proc 2.8 (Debian 12) stops at 15.0. A newer utf8proc says the same.
constexpr Range kAdded[] = {
    {0x1C89, 0x1C8A, kLetter},   {0xA7CB, 0xA7CD, kLetter},   {0xA7DA, 0xA7DC, kLetter},
    {0x105C0, 0x105F3, kLetter}, {0x10D40, 0x10D49, kNumber}, {0x10D4A, 0x10D65, kLetter},
    {0x10D6F, 0x10D85, kLetter}, {0x10EC2, 0x10EC4, kLetter}, {0x11380, 0x11389, kLetter},
    {0x1138B, 0x1138B, kLetter}, {0x1138E, 0x1138E, kLetter}, {0x11390, 0x113B5, kLetter},
    {0x113B7, 0x113B7, kLetter}, {0x113D1, 0x113D1, kLetter}, {0x113D3, 0x113D3, kLetter},
    {0x116D0, 0x116E3, kNumber}, {0x11BC0, 0x11BE0, kLetter}, {0x11BF0, 0x11BF9, kNumber},
    {0x13460, 0x143FA, kLetter}, {0x16100, 0x1611D, kLetter}, {0x16130, 0x16139, kNumber},
    {0x16D40, 0x16D6C, kLetter}, {0x16D70, 0x16D79, kNumber}, {0x18CFF, 0x18CFF, kLetter},
    {0x1CCF0, 0x1CCF9, kNumber}, {0x1E5D0, 0x1E5ED, kLetter}, {0x1E5F0, 0x1E5F0, kLetter},
    {0x1E5F1, 0x1E5FA, kNumber}, {0x2EBF0, 0x2EE5D, kLetter},
};

// The `tokenizers` library's table of punctuation is that of Unicode 8.0. Punctuation since then:
constexpr uint32_t kNewerPunctuation[][2] = {
    {0x061D, 0x061D}, {0x09FD, 0x09FD}, {0x0A76, 0x0A76}, {0x0C77, 0x0C77}, {0x0C84, 0x0C84}, {0x1B4E, 0x1B4F},
    {0x1B7D, 0x1B7F}, {0x2E43, 0x2E4F}, {0x2E52, 0x2E5D}, {0x10D6E, 0x10D6E}, {0x10EAD, 0x10EAD}, {0x10F55, 0x10F59},
    {0x10F86, 0x10F89}, {0x113D4, 0x113D5}, {0x113D7, 0x113D8}, {0x1144B, 0x1144F}, {0x1145A, 0x1145B},
    {0x1145D, 0x1145D}, {0x11660, 0x1166C}, {0x116B9, 0x116B9}, {0x1183B, 0x1183B}, {0x11944, 0x11946},
    {0x119E2, 0x119E2}, {0x11A3F, 0x11A46}, {0x11A9A, 0x11A9C}, {0x11A9E, 0x11AA2}, {0x11B00, 0x11B09},
    {0x11BE1, 0x11BE1}, {0x11C41, 0x11C45}, {0x11C70, 0x11C71}, {0x11EF7, 0x11EF8}, {0x11F43, 0x11F4F},
    {0x11FFF, 0x11FFF}, {0x12FF1, 0x12FF2}, {0x16D6D, 0x16D6F}, {0x16E97, 0x16E9A}, {0x16FE2, 0x16FE2},
    {0x1E5FF, 0x1E5FF}, {0x1E95E, 0x1E95F},
};

CharClass classify(uint32_t c) {
  // \s is the property White_Space: the separators and six controls.
  if ((c >= 9 && c <= 13) || c == 0x85) return kSpace;
  switch (utf8proc_category(utf8proc_int32_t(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return kLetter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return kNumber;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return kSpace;
    default:
      return kOther;
  }
}

std::array<uint8_t, kClassTableSize> build() {
  std::array<uint8_t, kClassTableSize> table;
  for (uint32_t c = 0; c < kClassTableSize; ++c) table[c] = classify(c);
  for (const Range& range : kAdded)
    for (uint32_t c = range.first; c <= range.last; ++c) table[c] = range.char_class;
  return table;
}

}  // namespace

const uint8_t* char_classes() {
  static const std::array<uint8_t, kClassTableSize> table = build();
  return table.data();
}

bool is_white_space(uint32_t c) { return class_of(char_classes(), c) == kSpace; }

bool is_mark(uint32_t c) {
  const utf8proc_category_t category = utf8proc_category(utf8proc_int32_t(c));
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC || category == UTF8PROC_CATEGORY_ME;
}

bool is_word_character(uint32_t c) {
  if (class_of(char_classes(), c) == kLetter || c == 0x200C || c == 0x200D || is_mark(c)) return true;
  switch (utf8proc_category(utf8proc_int32_t(c))) {
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
             (c >= 0x1F170 && c <= 0x1F189);  // circled and squared letters are Alphabetic
  }
}

bool is_punctuation(uint32_t c) {
  if (c < 0x80) return (c > 0x20 && c < '0') || (c > '9' && c < 'A') || (c > 'Z' && c < 'a') || (c > 'z' && c < 0x7F);
  if (c == 0x166D || c == 0x111C9) return true;  // was, in Unicode 8.0
  for (const auto& [first, last] : kNewerPunctuation)
    if (c >= first && c <= last) return false;
  switch (utf8proc_category(utf8proc_int32_t(c))) {
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      return true;
    default:
      return false;
  }
}

}  // namespace espalier
