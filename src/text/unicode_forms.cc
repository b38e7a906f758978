#include "text/unicode_forms.h"

#include <algorithm>
#include <cstring>

#include <utf8proc.h>

#include "text/unicode.h"
#include "text/utf8.h"

namespace espalier {
namespace {

uint8_t combining_class(uint32_t c) {
  return uint8_t(utf8proc_get_property(utf8proc_int32_t(c))->combining_class);
}

/// Has a decomposition since a Unicode newer than 12.0.
bool is_newer(uint32_t c) {
  return c == 0x32FF || (c >= 0xA7F1 && c <= 0xA7F4) || c == 0xAB69 || (c >= 0x105C9 && c <= 0x105E4) ||
         (c >= 0x10781 && c <= 0x107BA) || c == 0x11938 || (c >= 0x11383 && c <= 0x113C8) ||
         (c >= 0x16121 && c <= 0x16D6A) || (c >= 0x1CCD6 && c <= 0x1CCF9) || (c >= 0x1E030 && c <= 0x1E06D) ||
         (c >= 0x1FBF0 && c <= 0x1FBF9);
}

void decompose(uint32_t c, bool compatible, std::vector<CharChange>& out) {
  utf8proc_int32_t parts[32];  // the longest decomposition has 18
  int last_class = 0;
  const auto options = utf8proc_option_t(UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0));
  const utf8proc_ssize_t count =
      c < 0x80 || is_newer(c) ? 0 : utf8proc_decompose_char(utf8proc_int32_t(c), parts, 32, options, &last_class);
  if (count <= 0 || count > 32) return out.push_back({c, 0});
  for (utf8proc_ssize_t i = 0; i < count; ++i) out.push_back({uint32_t(parts[i]), i > 0});
}

/// Puts each row of marks into the order of their combining classes.
void order_marks(std::vector<CharChange>& chars) {
  const auto is_mark = [](const CharChange& c) { return c.code_point >= 0x300 && combining_class(c.code_point) > 0; };
  for (auto at = chars.begin(); at != chars.end();) {
    const auto first = std::find_if(at, chars.end(), is_mark);
    at = std::find_if_not(first, chars.end(), is_mark);
    std::stable_sort(first, at, [](const CharChange& a, const CharChange& b) {
      return combining_class(a.code_point) < combining_class(b.code_point);
    });
  }
}

/// The character that the two compose to; 0: none.
uint32_t composed(uint32_t first, uint32_t second) {
  if (second < 0x300) return 0;
  utf8proc_int32_t pair[2] = {utf8proc_int32_t(first), utf8proc_int32_t(second)};
  const auto options = utf8proc_option_t(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
  const bool one = utf8proc_normalize_utf32(pair, 2, options) == 1;
  return one && !is_newer(uint32_t(pair[0])) ? uint32_t(pair[0]) : 0;
}

/// The canonical composition algorithm (Unicode Standard, D117): a character joins the last starter before it unless
/// one of its own or a higher class stands between them.
void compose(std::vector<CharChange>& chars) {
  size_t size = 0;
  constexpr size_t kNone = ~size_t{0};
  size_t starter = kNone;
  int last_class = -1;  // of what stands between the starter and here; -1: nothing does
  for (const CharChange next : chars) {
    const int next_class = next.code_point < 0x300 ? 0 : combining_class(next.code_point);
    if (starter != kNone && last_class < next_class) {
      if (const uint32_t joined = composed(chars[starter].code_point, next.code_point)) {
        chars[starter] = {joined, chars[starter].change + next.change - 1};
        continue;
      }
    }
    last_class = next_class;
    if (next_class == 0) {
      starter = size;
      last_class = -1;
    }
    chars[size++] = next;
  }
  chars.resize(size);
}

constexpr uint8_t kLookCloser = 255;

/// For each code point its combining class, or kLookCloser where NFC may change it or what stands before it.
std::vector<uint8_t> build_nfc_table() {
  std::vector<uint8_t> table(kClassTableSize);
  std::vector<CharChange> parts;
  for (uint32_t c = 0x80; c < kClassTableSize; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    if (table[c] != kLookCloser) table[c] = combining_class(c);
    if (c >= 0xAC00 && c < 0xD7A4) continue;  // Hangul syllables; their parts are below
    parts.clear();
    decompose(c, false, parts);
    if (parts.size() == 1 && parts[0].code_point == c) continue;
    for (size_t i = 1; i < parts.size(); ++i)
      if (parts[i].code_point < kClassTableSize) table[parts[i].code_point] = kLookCloser;
    order_marks(parts);
    compose(parts);
    if (parts.size() != 1 || parts[0].code_point != c) table[c] = kLookCloser;
  }
  for (uint32_t c = 0x1161; c < 0x11C3; ++c) table[c] = kLookCloser;  // vowels and final consonants of Hangul
  return table;
}

bool surely_nfc(std::string_view text) {
  static const std::vector<uint8_t> table = build_nfc_table();
  const auto* p = reinterpret_cast<const uint8_t*>(text.data());
  const auto* const end = p + text.size();
  int length;
  for (uint8_t before = 0; p < end; p += length) {
    const uint32_t c = utf8_decode(p, length);
    const uint8_t mark = c < kClassTableSize ? table[c] : uint8_t{0};
    if (mark == kLookCloser || (mark != 0 && mark < before)) return false;
    before = mark;
  }
  return true;
}

bool is_ascii(std::string_view text) {
  uint64_t all = 0, word;
  size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    std::memcpy(&word, text.data() + i, 8);
    all |= word;
  }
  for (; i < text.size(); ++i) all |= uint8_t(text[i]) & 0x80u;
  return (all & 0x8080808080808080u) == 0;
}

}  // namespace

std::vector<CharChange> unicode_form(std::string_view text, UnicodeForm form) {
  std::vector<CharChange> chars;
  chars.reserve(text.size());
  const bool compatible = form == UnicodeForm::kNfkc || form == UnicodeForm::kNfkd;
  const auto* const start = reinterpret_cast<const uint8_t*>(text.data());
  int length;
  for (size_t at = 0; at < text.size(); at += size_t(length))
    decompose(utf8_decode(start + at, length), compatible, chars);
  order_marks(chars);
  if (form == UnicodeForm::kNfc || form == UnicodeForm::kNfkc) compose(chars);
  return chars;
}

bool surely_in_form(std::string_view text, UnicodeForm form) {
  return is_ascii(text) || (form == UnicodeForm::kNfc && surely_nfc(text));
}

std::vector<uint32_t> lower_case(uint32_t c) {
  if (c == 0x130) return {0x69, 0x307};
  // Capitals that Unicode 16.0 added; utf8proc 2.8 (Debian 12) stops at 15.0.
  if (c == 0x1C89) return {0x1C8A};
  if (c == 0xA7CB) return {0x264};
  if (c == 0xA7CC || c == 0xA7DA) return {c + 1};
  if (c == 0xA7DC) return {0x19B};
  if (c >= 0x10D50 && c <= 0x10D65) return {c + 0x20};
  return {uint32_t(utf8proc_tolower(utf8proc_int32_t(c)))};
}

}  // namespace espalier
