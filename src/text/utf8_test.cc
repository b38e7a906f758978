#include "text/utf8.h"

#include <gtest/gtest.h>

#include "text/unicode.h"

namespace espalier {
namespace {

TEST(Utf8, EveryCodePointRoundTrips) {
  for (uint32_t c = 0; c < 0x110000; c += c < 0x3000 ? 1 : 7) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    append_utf8(text, c);
    int length = 0;
    ASSERT_EQ(utf8_decode(reinterpret_cast<const uint8_t*>(text.data()), length), c);
    ASSERT_EQ(size_t(length), text.size());
    ASSERT_TRUE(is_utf8(text)) << c;
    const Utf8Step step = utf8_step(text);
    ASSERT_EQ(step.kind, Utf8Step::kValid) << c;
    ASSERT_EQ(size_t(step.length), text.size());
    // Each shorter prefix waits for more.
    for (size_t n = 1; n < text.size(); ++n)
      ASSERT_EQ(utf8_step(std::string_view(text).substr(0, n)).kind, Utf8Step::kIncomplete);
  }
}

// What Python gives for bytes.decode("utf-8", "replace"), written out; longer ones are in tests/golden/tokenizer.
TEST(Utf8, MaximalSubpartsBecomeOneReplacementEach) {
  const std::string R = "\uFFFD";
  const std::pair<std::string, std::string> cases[] = {
      {"", ""},
      {"plain \u00e9", "plain \u00e9"},
      {"a\xff" "b", "a" + R + "b"},
      {"\xc3(", R + "("},
      {"\xe2\x80", R},                           // one truncated character
      {"\xe2\x80\xe2\x82\xac", R + "\u20ac"},    // truncated, then a whole one
      {"\xf0\x9f\x98", R},
      {"\xc0\x80", R + R},                       // overlong: neither byte starts anything
      {"\xe0\x80\x80", R + R + R},
      {"\xed\xa0\x80", R + R + R},               // a surrogate
      {"\xf4\x90\x80\x80", R + R + R + R},       // above U+10FFFF
      {"\xf1\x80\x80" "a\x80", R + "a" + R},
  };
  for (const auto& [bytes, expected] : cases) {
    EXPECT_EQ(repair_utf8(bytes).text, expected);
    EXPECT_EQ(is_utf8(bytes), bytes == expected);
  }
}

TEST(Utf8, RepairedOffsetsPointIntoTheSource) {
  const RepairedText repaired = repair_utf8("a\xff" "b\xe2\x80" "c");  // a U+FFFD b U+FFFD c
  ASSERT_EQ(repaired.text.size(), 9u);
  const uint32_t expected[] = {0, 1, 1, 1, 2, 3, 3, 3, 5, 6};
  for (uint32_t i = 0; i <= 9; ++i) EXPECT_EQ(repaired.source_offset(i), expected[i]) << i;
}

TEST(Unicode, ClassesOfWellKnownCharacters) {
  const uint8_t* classes = char_classes();
  for (const uint32_t c : {0x41u, 0xE9u, 0x17Fu, 0x4E2Du, 0x5D0u, 0x1C5u, 0x2EBF0u, 0x1C89u})
    EXPECT_EQ(class_of(classes, c), kLetter) << c;
  for (const uint32_t c : {0x30u, 0xB2u, 0xBDu, 0x2167u, 0x661u, 0x1D7D8u, 0x10D40u})
    EXPECT_EQ(class_of(classes, c), kNumber) << c;
  for (const uint32_t c : {0x9u, 0xBu, 0x20u, 0x85u, 0xA0u, 0x1680u, 0x2028u, 0x3000u})
    EXPECT_EQ(class_of(classes, c), kSpace) << c;
  // The Mongolian vowel separator, zero-width space and information separators are no white space.
  for (const uint32_t c : {0x180Eu, 0x200Bu, 0x1Cu, 0x301u, 0x1F642u, 0xE000u, 0xFFFDu, 0x10FFFFu})
    EXPECT_EQ(class_of(classes, c), kOther) << c;
  int counts[4] = {};
  for (uint32_t c = 0; c < 0x110000; ++c) ++counts[class_of(classes, c)];
  // As Oniguruma in `tokenizers` 0.23 counts them.
  EXPECT_EQ(counts[kLetter], 141028);
  EXPECT_EQ(counts[kNumber], 1911);
  EXPECT_EQ(counts[kSpace], 25);
}

}  // namespace
}  // namespace espalier
