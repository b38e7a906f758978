#include "text/normalizer.h"

#include <algorithm>

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

bool leaves_step_alone(const ReplaceStep& step, std::string_view text) { return step.pattern.surely_absent(text); }
bool leaves_step_alone(const PrependStep& step, std::string_view text) { return text.empty() || step.content.empty(); }
bool leaves_step_alone(UnicodeForm form, std::string_view text) { return surely_in_form(text, form); }
bool leaves_step_alone(const LowercaseStep&, std::string_view text) { return text.empty(); }

void apply_step(const ReplaceStep& step, TrackedText& text) { text = replace_all(text, step.pattern, step.content); }
void apply_step(const PrependStep& step, TrackedText& text) { prepend(text, step.content); }

void apply_step(UnicodeForm form, TrackedText& text) {
  if (!surely_in_form(text.text, form)) change_chars(text, unicode_form(text.text, form));
}
void apply_step(const LowercaseStep&, TrackedText& text) {
  map_chars(text, [](uint32_t c, std::vector<uint32_t>& out) { out = lower_case(c); });
}

bool step_works_char_by_char(const ReplaceStep&) { return false; }
bool step_works_char_by_char(const PrependStep&) { return false; }
bool step_works_char_by_char(UnicodeForm) { return true; }
bool step_works_char_by_char(const LowercaseStep&) { return true; }

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
