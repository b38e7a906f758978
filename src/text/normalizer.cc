#include "text/normalizer.h"

#include <algorithm>

#include "text/utf8.h"

namespace espalier {
namespace {

bool leaves_step_alone(const ReplaceStep& step, std::string_view text) { return step.pattern.surely_absent(text); }
bool leaves_step_alone(const PrependStep& step, std::string_view text) { return text.empty() || step.content.empty(); }

void apply_step(const ReplaceStep& step, TrackedText& text) { text = replace_all(text, step.pattern, step.content); }
void apply_step(const PrependStep& step, TrackedText& text) { prepend(text, step.content); }

bool step_works_char_by_char(const ReplaceStep&) { return false; }
bool step_works_char_by_char(const PrependStep&) { return false; }

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
