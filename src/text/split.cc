#include "text/split.h"

#include "text/unicode.h"
#include "text/utf8.h"

namespace espalier {
namespace {

constexpr int kEnd = -1;  // the class of what is behind the last character

/// The class of the character at p and its length; kEnd and 0 at the end.
inline int class_at(const uint8_t* p, const uint8_t* end, const uint8_t* classes, int& length) {
  if (p >= end) return length = 0, kEnd;
  if (*p < 0x80) return length = 1, classes[*p];
  return class_of(classes, utf8_decode(p, length));
}

/// Behind the run of characters of this class.
inline const uint8_t* run_end(const uint8_t* p, const uint8_t* end, const uint8_t* classes, int char_class) {
  for (;;) {
    while (p < end && *p < 0x80 && classes[*p] == char_class) ++p;
    if (p == end || *p < 0x80) return p;
    int length;
    if (class_of(classes, utf8_decode(p, length)) != char_class) return p;
    p += length;
  }
}

/// \s+(?!\S)|\s+ at a space of `length` bytes: the whole run where the text ends with it; otherwise the run without its
/// last character, which belongs to what follows; a run of one is a piece.
const uint8_t* spaces_end(const uint8_t* p, const uint8_t* end, const uint8_t* classes, int length) {
  const uint8_t *last = p, *next = p + length;
  while (class_at(next, end, classes, length) == kSpace) {
    last = next;
    next += length;
  }
  return next == end || last == p ? next : last;
}

/// '(?:[sdmt]|ll|ve|re) at an apostrophe; null where it does not match.
const uint8_t* gpt2_contraction(const uint8_t* p, const uint8_t* end) {
  const uint8_t a = p + 1 < end ? p[1] : 0, b = p + 2 < end ? p[2] : 0;
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return p + 2;
  if ((a == 'l' && b == 'l') || (a == 'v' && b == 'e') || (a == 'r' && b == 'e')) return p + 3;
  return nullptr;
}

const uint8_t* gpt2_piece_end(const uint8_t* p, const uint8_t* end, const uint8_t* classes) {
  if (*p == '\'') {
    if (const uint8_t* contraction = gpt2_contraction(p, end)) return contraction;
  }
  int length;
  const int first = class_at(p, end, classes, length);
  if (first != kSpace) return run_end(p + length, end, classes, first);
  if (*p == ' ') {
    int next_length;
    const int next = class_at(p + 1, end, classes, next_length);
    if (next != kSpace && next != kEnd) return run_end(p + 1 + next_length, end, classes, next);
  }
  return spaces_end(p, end, classes, length);
}

/// (?i:'s|'t|'re|'ve|'m|'ll|'d) at an apostrophe; null where it does not match. Ignoring case, s is also U+017F.
const uint8_t* llama3_contraction(const uint8_t* p, const uint8_t* end) {
  const auto lower = [&](int i) -> uint8_t { return p + i < end ? p[i] | 0x20 : 0; };
  const uint8_t a = lower(1), b = lower(2);
  if (p + 1 < end && p[1] >= 0x80) return p + 2 < end && p[1] == 0xC5 && p[2] == 0xBF ? p + 3 : nullptr;
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return p + 2;
  if ((a == 'l' && b == 'l') || (a == 'v' && b == 'e') || (a == 'r' && b == 'e')) return p + 3;
  return nullptr;
}

inline bool is_newline(uint8_t c) { return c == '\n' || c == '\r'; }

/// \s*[\r\n]+|\s+(?!\S)|\s+ at a space: up to the last newline of the run, if it has one.
const uint8_t* llama3_spaces_end(const uint8_t* p, const uint8_t* end, const uint8_t* classes, int length) {
  const uint8_t *last = p, *next = p, *behind_newline = nullptr;
  do {
    last = next;
    if (is_newline(*next)) behind_newline = next + 1;
    next += length;
  } while (class_at(next, end, classes, length) == kSpace);
  if (behind_newline) return behind_newline;
  return next == end || last == p ? next : last;
}

template <int kMaxDigits>
const uint8_t* llama3_piece_end(const uint8_t* p, const uint8_t* end, const uint8_t* classes) {
  if (*p == '\'') {
    if (const uint8_t* contraction = llama3_contraction(p, end)) return contraction;
  }
  int length;
  int first = class_at(p, end, classes, length);
  if (first == kLetter) return run_end(p + length, end, classes, kLetter);
  if (first == kNumber) {
    const uint8_t* next = p + length;
    for (int i = 1; i < kMaxDigits && class_at(next, end, classes, length) == kNumber; ++i) next += length;
    return next;
  }
  const uint8_t* next = p + length;
  int next_length;
  const int second = class_at(next, end, classes, next_length);
  // [^\r\n\p{L}\p{N}]?\p{L}+: any one space or mark goes with the letters behind it.
  if (second == kLetter && !is_newline(*p)) return run_end(next + next_length, end, classes, kLetter);
  //  ?[^\s\p{L}\p{N}]+[\r\n]*
  if (*p == ' ' && second == kOther) {
    first = kOther;
    next += next_length;
  }
  if (first == kOther) {
    next = run_end(next, end, classes, kOther);
    while (next < end && is_newline(*next)) ++next;
    return next;
  }
  return llama3_spaces_end(p, end, classes, length);
}

}  // namespace

const SplitPattern kGpt2Split{
    "gpt2", R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", gpt2_piece_end};
const SplitPattern kLlama3Split{
    "llama3",
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)",
    llama3_piece_end<3>};
const SplitPattern kQwen2Split{
    "qwen2",
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)",
    llama3_piece_end<1>};

namespace {
const SplitPattern* const kSplits[] = {&kGpt2Split, &kLlama3Split, &kQwen2Split};
}  // namespace

size_t last_safe_cut(std::string_view text) {
  for (size_t at = text.size(); at-- > 1;) {
    const char before = text[at - 1], here = text[at];
    if ((here == ' ' || here == '\t') && before > ' ' && before < 0x7F) return at;
  }
  return 0;
}

const SplitPattern* find_split_by_name(std::string_view name) {
  for (const SplitPattern* split : kSplits)
    if (name == split->name) return split;
  return nullptr;
}

const SplitPattern* find_split_by_regex(std::string_view regex) {
  for (const SplitPattern* split : kSplits)
    if (regex == split->regex) return split;
  // GPT-2's own release spells its pattern out.
  if (regex == R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)") return &kGpt2Split;
  return nullptr;
}

}  // namespace espalier
