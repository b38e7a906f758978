#include "text/normalizer.h"

#include <algorithm>

#include <utf8proc.h>

#include "text/unicode.h"
#include "text/utf8.h"

namespace espalier {
namespace {

uint32_t char_at(std::string_view text, size_t at, int& length) {
  return utf8_decode(reinterpret_cast<const uint8_t*>(text.data()) + at, length);
}

/// Replaces each character by those that map(character, out) appends to `out`; they cover it.
template <class F>
void map_chars(TrackedText& text, F&& map) {
  const std::string_view old = text.text;
  TextEdit edit(text);
  std::vector<uint32_t> chars;
  std::string bytes;
  int length;
  for (size_t at = 0; at < old.size(); at += size_t(length)) {
    const uint32_t c = char_at(old, at, length);
    chars.clear();
    map(c, chars);
    if (chars.size() == 1 && chars[0] == c) {
      edit.keep(at, at + size_t(length));
      continue;
    }
    bytes.clear();
    for (const uint32_t to : chars) append_utf8(bytes, to);
    edit.put(bytes, at, at + size_t(length));
  }
  text = edit.take();
}

bool is_control(uint32_t c) {
  if (c == '\t' || c == '\n' || c == '\r') return false;
  switch (utf8proc_category(utf8proc_int32_t(c))) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CO:
      return true;
    default:
      return false;
  }
}

bool is_chinese(uint32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

bool nmt_drops(uint32_t c) {
  return (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
}

bool nmt_makes_space(uint32_t c) {
  return c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 || (c >= 0x200B && c <= 0x200F) || c == 0x2028 ||
         c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
}

void apply_step(const ReplaceStep& step, TrackedText& text) { text = replace_all(text, step.pattern, step.content); }
void apply_step(const PrependStep& step, TrackedText& text) { prepend(text, step.content); }
void apply_step(UnicodeForm form, TrackedText& text) {
  if (!surely_in_form(text.text, form)) change_chars(text, unicode_form(text.text, form));
}
void apply_step(const Charsmap& charsmap, TrackedText& text) { charsmap.apply(text); }

void apply_step(const LowercaseStep&, TrackedText& text) {
  map_chars(text, [](uint32_t c, std::vector<uint32_t>& out) { out = lower_case(c); });
}

void apply_step(const StripAccentsStep&, TrackedText& text) {
  map_chars(text, [](uint32_t c, std::vector<uint32_t>& out) {
    if (!is_mark(c)) out.push_back(c);
  });
}

void apply_step(const NmtStep&, TrackedText& text) {
  map_chars(text, [](uint32_t c, std::vector<uint32_t>& out) {
    if (!nmt_drops(c)) out.push_back(nmt_makes_space(c) ? ' ' : c);
  });
}

void apply_step(const StripStep& step, TrackedText& text) {
  const std::string_view old = text.text;
  size_t begin = 0, end = old.size();
  int length;
  while (step.left && begin < end && is_white_space(char_at(old, begin, length))) begin += size_t(length);
  while (step.right && begin < end) {
    size_t last = end - 1;
    while ((uint8_t(old[last]) & 0xC0) == 0x80) --last;
    if (!is_white_space(char_at(old, last, length))) break;
    end = last;
  }
  text = text.slice({uint32_t(begin), uint32_t(end)});
}

void apply_step(const BertStep& step, TrackedText& text) {
  if (step.clean_text)
    map_chars(text, [](uint32_t c, std::vector<uint32_t>& out) {
      if (c != 0 && c != 0xFFFD && !is_control(c)) out.push_back(is_white_space(c) ? ' ' : c);
    });
  if (step.chinese_chars)
    map_chars(text, [](uint32_t c, std::vector<uint32_t>& out) {
      out = is_chinese(c) ? std::vector<uint32_t>{' ', c, ' '} : std::vector<uint32_t>{c};
    });
  if (step.strip_accents) {
    apply_step(UnicodeForm::kNfd, text);
    map_chars(text, [](uint32_t c, std::vector<uint32_t>& out) {
      if (utf8proc_category(utf8proc_int32_t(c)) != UTF8PROC_CATEGORY_MN) out.push_back(c);
    });
  }
  if (step.lowercase) apply_step(LowercaseStep{}, text);
}

bool leaves_step_alone(const ReplaceStep& step, std::string_view text) { return step.pattern.surely_absent(text); }
bool leaves_step_alone(UnicodeForm form, std::string_view text) { return surely_in_form(text, form); }
template <class OtherStep>
bool leaves_step_alone(const OtherStep&, std::string_view text) {
  return text.empty();
}

// What others do may look or reach across a cut.
template <class OtherStep>
bool step_works_char_by_char(const OtherStep&) {
  return false;
}
bool step_works_char_by_char(UnicodeForm) { return true; }
bool step_works_char_by_char(const LowercaseStep&) { return true; }
bool step_works_char_by_char(const StripAccentsStep&) { return true; }

}  // namespace

void prepend(TrackedText& text, std::string_view content) {
  if (text.text.empty()) return;
  int length;
  utf8_decode(reinterpret_cast<const uint8_t*>(text.text.data()), length);
  TextEdit edit(text);
  edit.put(content, 0, size_t(length));
  edit.keep(0, text.text.size());
  text = edit.take();
}

bool Normalizer::leaves_alone(std::string_view text) const {
  return std::all_of(steps_.begin(), steps_.end(), [&](const Step& step) {
    return std::visit([&](const auto& s) { return leaves_step_alone(s, text); }, step);
  });
}

bool Normalizer::works_char_by_char() const {
  return std::all_of(steps_.begin(), steps_.end(), [](const Step& step) {
    return std::visit([](const auto& s) { return step_works_char_by_char(s); }, step);
  });
}

void Normalizer::apply(TrackedText& text) const {
  for (const Step& step : steps_) std::visit([&](const auto& s) { apply_step(s, text); }, step);
}

std::string Normalizer::apply(std::string_view source) const {
  TrackedText text(source, 0, false);
  apply(text);
  return std::move(text.text);
}

}  // namespace espalier
