#include "text/tracked_text.h"

#include "text/utf8.h"

namespace espalier {
namespace {

size_t char_length(std::string_view text, size_t at) {
  int length;
  utf8_decode(reinterpret_cast<const uint8_t*>(text.data()) + at, length);
  return size_t(length);
}

}  // namespace

TrackedText::TrackedText(std::string_view source, uint32_t offset, bool tracked_) : text(source), tracked(tracked_) {
  if (!tracked) return;
  origin.resize(text.size());
  for (uint32_t i = 0; i < origin.size(); ++i) origin[i] = {offset + i, offset + i + 1};
}

TrackedText TrackedText::slice(Span part) const {
  TrackedText out;
  out.text = text.substr(part.begin, part.end - part.begin);
  out.tracked = tracked;
  if (tracked) out.origin.assign(origin.begin() + part.begin, origin.begin() + part.end);
  return out;
}

TextEdit::TextEdit(const TrackedText& from) : from_(from) {
  to_.tracked = from.tracked;
  to_.text.reserve(from.text.size() + 16);
  if (from.tracked) to_.origin.reserve(from.text.size() + 16);
}

void TextEdit::keep(size_t begin, size_t end) {
  to_.text.append(from_.text, begin, end - begin);
  if (from_.tracked)
    to_.origin.insert(to_.origin.end(), from_.origin.begin() + ptrdiff_t(begin), from_.origin.begin() + ptrdiff_t(end));
}

void TextEdit::put(std::string_view content, size_t begin, size_t end) {
  if (begin == end) return put_behind(content, end);
  to_.text += content;
  if (from_.tracked) to_.origin.insert(to_.origin.end(), content.size(), from_.source(begin, end));
}

void TextEdit::put_behind(std::string_view content, size_t end) {
  if (end > 0) {
    size_t begin = end - 1;
    while (begin > 0 && (uint8_t(from_.text[begin]) & 0xC0) == 0x80) --begin;
    return put(content, begin, end);
  }
  to_.text += content;
  if (!from_.tracked) return;
  const uint32_t start = from_.origin.empty() ? 0 : from_.origin[0].begin;
  to_.origin.insert(to_.origin.end(), content.size(), {start, start});
}

void change_chars(TrackedText& text, const std::vector<CharChange>& chars) {
  TextEdit edit(text);
  const std::string_view old = text.text;
  size_t at = 0;  // in the old text, behind what has been replaced
  std::string bytes;
  for (const auto& [code_point, change] : chars) {
    bytes.clear();
    append_utf8(bytes, code_point);
    if (change > 0) {
      edit.put_behind(bytes, at);
      continue;
    }
    if (at >= old.size()) {  // more characters than were announced; they cover what came last
      edit.put_behind(bytes, old.size());
      continue;
    }
    const size_t end = at + char_length(old, at);
    if (old.substr(at, end - at) == bytes) {
      edit.keep(at, end);
    } else {
      edit.put(bytes, at, end);
    }
    at = end;
    for (int i = 0; i > change && at < old.size(); --i) at += char_length(old, at);
  }
  text = edit.take();
}

}  // namespace espalier
