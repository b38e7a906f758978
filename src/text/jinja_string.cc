#include "text/jinja_string.h"

#include <utf8proc.h>

#include <algorithm>

#include "text/utf8.h"

namespace espalier::jinja {
namespace {

struct Point {
  uint32_t code;
  size_t begin, size;
};

Point point_at(std::string_view text, size_t at) {
  int length = 0;
  const uint32_t code = utf8_decode(reinterpret_cast<const uint8_t*>(text.data()) + at, length);
  return {code, at, size_t(length)};
}

Point point_before(std::string_view text, size_t end) {
  size_t at = end - 1;
  while ((uint8_t(text[at]) & 0xC0) == 0x80) --at;
  return point_at(text, at);
}

std::vector<Point> points_of(std::string_view text) {
  std::vector<Point> points;
  for (size_t at = 0; at < text.size(); at += points.back().size) points.push_back(point_at(text, at));
  return points;
}

bool is_line_break(uint32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool in(const std::vector<Point>& set, uint32_t code) {
  return std::any_of(set.begin(), set.end(), [&](const Point& p) { return p.code == code; });
}

bool is_letter(uint32_t c) {
  const auto category = utf8proc_category(int32_t(c));
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}
bool is_upper_letter(uint32_t c) { return utf8proc_category(int32_t(c)) == UTF8PROC_CATEGORY_LU; }
bool is_lower_letter(uint32_t c) { return utf8proc_category(int32_t(c)) == UTF8PROC_CATEGORY_LL; }
bool is_cased(uint32_t c) {
  return is_upper_letter(c) || is_lower_letter(c) || utf8proc_category(int32_t(c)) == UTF8PROC_CATEGORY_LT;
}

void append_upper(std::string& out, uint32_t c, bool as_title = false) {
  if (c == 0xDF) {
    out += as_title ? "Ss" : "SS";
    return;
  }
  append_utf8(out, uint32_t(as_title ? utf8proc_totitle(int32_t(c)) : utf8proc_toupper(int32_t(c))));
}

void append_lower(std::string& out, uint32_t c) {
  if (c == 0x130) {
    out += "i\xCC\x87";
    return;
  }
  append_utf8(out, uint32_t(utf8proc_tolower(int32_t(c))));
}

}  // namespace

bool is_space(uint32_t c) {
  if (c < 0x80) return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
         c == 0x202F || c == 0x205F || c == 0x3000;
}

size_t byte_of(std::string_view text, int64_t index) {
  size_t at = 0;
  while (index > 0 && at < text.size()) {
    ++at;
    while (at < text.size() && (uint8_t(text[at]) & 0xC0) == 0x80) ++at;
    --index;
  }
  return at;
}

std::string slice_text(std::string_view text, int64_t begin, int64_t end, int64_t step) {
  if (step == 1) {
    if (begin >= end) return "";
    const size_t from = byte_of(text, begin);
    return std::string(text.substr(from, byte_of(text.substr(from), end - begin)));
  }
  const std::vector<Point> points = points_of(text);
  std::string out;
  for (int64_t i = begin; step > 0 ? i < end : i > end; i += step) {
    const Point& p = points[size_t(i)];
    out += text.substr(p.begin, p.size);
  }
  return out;
}

std::string_view strip(std::string_view text, const std::string* chars, bool left, bool right) {
  const std::vector<Point> set = chars ? points_of(*chars) : std::vector<Point>();
  const auto goes = [&](uint32_t code) { return chars ? in(set, code) : is_space(code); };
  while (left && !text.empty()) {
    const Point p = point_at(text, 0);
    if (!goes(p.code)) break;
    text.remove_prefix(p.size);
  }
  while (right && !text.empty()) {
    const Point p = point_before(text, text.size());
    if (!goes(p.code)) break;
    text.remove_suffix(p.size);
  }
  return text;
}

std::vector<std::string_view> split(std::string_view text, const std::string* separator, int64_t max_splits) {
  std::vector<std::string_view> parts;
  if (separator) {
    for (; max_splits != 0; --max_splits) {
      const size_t at = text.find(*separator);
      if (at == std::string_view::npos) break;
      parts.push_back(text.substr(0, at));
      text.remove_prefix(at + separator->size());
    }
    parts.push_back(text);
    return parts;
  }
  for (text = strip(text, nullptr, true, false); !text.empty(); text = strip(text, nullptr, true, false)) {
    if (max_splits-- == 0) {
      parts.push_back(text);
      break;
    }
    size_t end = 0;
    for (; end < text.size(); end += point_at(text, end).size)
      if (is_space(point_at(text, end).code)) break;
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return parts;
}

std::vector<std::string_view> split_right(std::string_view text, const std::string* separator, int64_t max_splits) {
  std::vector<std::string_view> parts;
  if (separator) {
    for (; max_splits != 0; --max_splits) {
      const size_t at = text.rfind(*separator);
      if (at == std::string_view::npos) break;
      parts.push_back(text.substr(at + separator->size()));
      text = text.substr(0, at);
    }
    parts.push_back(text);
  } else {
    for (text = strip(text, nullptr, false, true); !text.empty(); text = strip(text, nullptr, false, true)) {
      if (max_splits-- == 0) {
        parts.push_back(text);
        break;
      }
      size_t begin = text.size();
      while (begin > 0 && !is_space(point_before(text, begin).code)) begin = point_before(text, begin).begin;
      parts.push_back(text.substr(begin));
      text = text.substr(0, begin);
    }
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const Point p = point_at(text, at);
    at += p.size;
    if (!is_line_break(p.code)) continue;
    if (p.code == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.push_back(text.substr(begin, (keep_ends ? at : p.begin) - begin));
    begin = at;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

std::string upper(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size(); at += point_at(text, at).size) append_upper(out, point_at(text, at).code);
  return out;
}

std::string lower(std::string_view text) {
  std::string out;
  bool in_word = false;
  for (const Point& p : points_of(text)) {
    // Python's final sigma: behind a letter, and before none.
    const size_t next = p.begin + p.size;
    const bool ends = next == text.size() || !is_cased(point_at(text, next).code);
    if (p.code == 0x3A3 && in_word && ends)
      append_utf8(out, 0x3C2);
    else
      append_lower(out, p.code);
    in_word = is_cased(p.code);
  }
  return out;
}

std::string capitalize(std::string_view text) {
  if (text.empty()) return "";
  const Point first = point_at(text, 0);
  std::string out;
  append_upper(out, first.code, true);
  return out + lower(text.substr(first.size));
}

std::string title(std::string_view text) {
  std::string out;
  bool in_word = false;
  for (const Point& p : points_of(text)) {
    if (in_word)
      append_lower(out, p.code);
    else
      append_upper(out, p.code, true);
    in_word = is_cased(p.code);
  }
  return out;
}

std::string swap_case(std::string_view text) {
  std::string out;
  for (const Point& p : points_of(text)) {
    if (is_upper_letter(p.code))
      append_lower(out, p.code);
    else
      append_upper(out, p.code);
  }
  return out;
}

bool is_all(std::string_view text, std::string_view what) {
  if (text.empty()) return false;
  bool cased = false;
  for (const Point& p : points_of(text)) {
    const auto category = utf8proc_category(int32_t(p.code));
    const bool digit = category == UTF8PROC_CATEGORY_ND, number = category >= UTF8PROC_CATEGORY_ND &&
                                                                  category <= UTF8PROC_CATEGORY_NO;
    if (what == "isspace" && !is_space(p.code)) return false;
    if (what == "isalpha" && !is_letter(p.code)) return false;
    if ((what == "isdigit" || what == "isdecimal") && !digit) return false;
    if (what == "isnumeric" && !number) return false;
    if (what == "isalnum" && !is_letter(p.code) && !number) return false;
    if (what == "isupper" && is_lower_letter(p.code)) return false;
    if (what == "islower" && is_upper_letter(p.code)) return false;
    cased |= is_cased(p.code);
  }
  return cased || (what != "isupper" && what != "islower");
}

bool is_printable(uint32_t c) {
  if (c < 0x7F) return c >= 0x20;
  switch (utf8proc_category(int32_t(c))) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS: return false;
    default: return true;
  }
}

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&#34;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

}  // namespace espalier::jinja
