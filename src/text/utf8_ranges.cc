#include "text/utf8_ranges.h"

#include <algorithm>
#include <string>

#include "text/utf8.h"

namespace espalier {
namespace {

// Cuts [first, last] until all characters of a part have forms of one length in which the bytes behind the first one
// that differs run through all of 80 to BF: then the bytes are independent of each other.
void split(uint32_t first, uint32_t last, std::vector<ByteRanges>& out) {
  if (first > last) return;
  for (const uint32_t border : {0x7Fu, 0x7FFu, 0xD7FFu, 0xDFFFu, 0xFFFFu})
    if (first <= border && border < last) {
      split(first, border, out);
      return split(border + 1, last, out);
    }
  if (first >= 0xD800 && last <= 0xDFFF) return;
  if (first >= 0x80)
    for (const uint32_t low : {0x3Fu, 0xFFFu, 0x3FFFFu}) {
      if ((first & ~low) == (last & ~low)) continue;
      if ((first & low) != 0) {
        split(first, first | low, out);
        return split((first | low) + 1, last, out);
      }
      if ((last & low) != low) {
        split(first, (last & ~low) - 1, out);
        return split(last & ~low, last, out);
      }
    }
  std::string a, b;
  append_utf8(a, first);
  append_utf8(b, last);
  ByteRanges r{int(a.size()), {}, {}};
  for (size_t i = 0; i < 4 && i < a.size(); ++i) {
    r.low[i] = uint8_t(a[i]);
    r.high[i] = uint8_t(b[i]);
  }
  out.push_back(r);
}

}  // namespace

std::vector<ByteRanges> utf8_ranges(CodeRange range) {
  std::vector<ByteRanges> out;
  split(range.first, std::min(range.last, 0x10FFFFu), out);
  return out;
}

}  // namespace espalier
