#include "text/utf8_ranges.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "text/utf8.h"

namespace espalier {
namespace {

bool holds(const std::vector<ByteRanges>& list, const std::string& text) {
  int matching = 0;
  for (const ByteRanges& r : list) {
    bool inside = size_t(r.length) == text.size();
    for (size_t i = 0; inside && i < text.size(); ++i)
      inside = r.low[i] <= uint8_t(text[i]) && uint8_t(text[i]) <= r.high[i];
    matching += inside;
  }
  EXPECT_LE(matching, 1) << "sequences overlap";
  return matching > 0;
}

TEST(Utf8Ranges, HoldTheCharactersOfTheirRangeAndNoOthers) {
  const Rng rng(1, Purpose::kTest);
  std::vector<CodeRange> ranges = {{0, 0x10FFFF}, {0, 0}, {0x7F, 0x80}, {0x7FF, 0x800}, {0xD7FF, 0xE000},
                                   {0xFFFF, 0x10000}, {0x10FFFF, 0x10FFFF}, {0xD800, 0xDFFF}};
  for (uint64_t i = 0; i < 60; ++i) {
    const uint32_t a = uint32_t(rng.below(2 * i, 0x110000)) >> (i % 12), b = a + uint32_t(rng.below(2 * i + 1, 5000));
    ranges.push_back({a, std::min(b, 0x10FFFFu)});
  }
  for (const CodeRange& r : ranges) {
    const std::vector<ByteRanges> list = utf8_ranges(r);
    for (uint32_t c = 0; c < 0x110000; c += c < 0x1000 || (c + 40 > r.first && c < r.last + 40) ? 1 : 37) {
      if (c >= 0xD800 && c <= 0xDFFF) continue;
      std::string text;
      append_utf8(text, c);
      ASSERT_EQ(holds(list, text), r.first <= c && c <= r.last) << c << " in " << r.first << "-" << r.last;
    }
  }
  EXPECT_TRUE(utf8_ranges({0xD800, 0xDFFF}).empty());
}

}  // namespace
}  // namespace espalier
