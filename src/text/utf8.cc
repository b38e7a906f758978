#include "text/utf8.h"

#include <algorithm>

#include <simdjson.h>

#include "base/check.h"
#include "base/error.h"

namespace espalier {

bool is_utf8(std::string_view text) { return simdjson::validate_utf8(text.data(), text.size()); }

Utf8Step utf8_step(std::string_view text) {
  const auto byte = [&](size_t i) { return uint8_t(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return {Utf8Step::kValid, 1};
  if (first < 0xC2 || first > 0xF4) return {Utf8Step::kInvalid, 1};
  const int length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  // The second byte's range is narrower after four first bytes: overlong forms, surrogates, and the upper end.
  const uint8_t low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const uint8_t high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  for (int i = 1; i < length; ++i) {
    if (size_t(i) == text.size()) return {Utf8Step::kIncomplete, i};
    const uint8_t b = byte(size_t(i));
    if (b < (i == 1 ? low : 0x80) || b > (i == 1 ? high : 0xBF)) return {Utf8Step::kInvalid, i};
  }
  return {Utf8Step::kValid, length};
}

void append_utf8(std::string& out, uint32_t c) {
  ESP_CHECK(c < 0x110000, "code point {:x}", c);
  if (c < 0x80) {
    out += char(c);
  } else if (c < 0x800) {
    out += char(0xC0 | c >> 6);
    out += char(0x80 | (c & 63));
  } else if (c < 0x10000) {
    out += char(0xE0 | c >> 12);
    out += char(0x80 | (c >> 6 & 63));
    out += char(0x80 | (c & 63));
  } else {
    out += char(0xF0 | c >> 18);
    out += char(0x80 | (c >> 12 & 63));
    out += char(0x80 | (c >> 6 & 63));
    out += char(0x80 | (c & 63));
  }
}

std::string take_characters(std::string& bytes) {
  std::string text;
  size_t at = 0;
  while (at < bytes.size()) {
    const Utf8Step step = utf8_step(std::string_view(bytes).substr(at));
    if (step.kind == Utf8Step::kIncomplete) break;
    if (step.kind == Utf8Step::kValid) {
      text.append(bytes, at, size_t(step.length));
    } else {
      text += "\uFFFD";
    }
    at += size_t(step.length);
  }
  bytes.erase(0, at);
  return text;
}

uint32_t RepairedText::source_offset(uint32_t here) const {
  const auto after = std::upper_bound(anchors.begin(), anchors.end(), here,
                                      [](uint32_t offset, const Anchor& anchor) { return offset < anchor.here; });
  const Anchor& anchor = *(after - 1);
  const uint32_t offset = anchor.source + (here - anchor.here);
  // Between the start of a replacement character and the next anchor no source byte is passed.
  return after == anchors.end() ? offset : std::min(offset, after->source);
}

RepairedText repair_utf8(std::string_view text) {
  if (text.size() >= size_t{1} << 30)  // offsets have 32 bits, and each byte may become three
    throw error(Code::kUnsupported, "repairing a text of {} bytes that is not UTF-8: fewer than 1 GiB fit; cut it",
                text.size());
  RepairedText out;
  out.anchors.push_back({0, 0});
  for (size_t i = 0; i < text.size();) {
    const Utf8Step step = utf8_step(text.substr(i));
    if (step.kind == Utf8Step::kValid) {
      out.text.append(text, i, size_t(step.length));
    } else {
      // Three anchors: the character starts here, its inner bytes stay here, and behind it the source goes on.
      const auto here = uint32_t(out.text.size()), source = uint32_t(i);
      out.anchors.push_back({here, source});
      out.anchors.push_back({here + 1, source});
      out.anchors.push_back({here + 2, source});
      out.text += "\uFFFD";
      out.anchors.push_back({here + 3, uint32_t(source + uint32_t(step.length))});
    }
    i += size_t(step.length);
  }
  return out;
}

}  // namespace espalier
