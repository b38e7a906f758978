// The forms against utf8proc's own function, on random text, and what is newer than Unicode 12.0.
#include "text/unicode_forms.h"

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>
#include <utf8proc.h>

#include "base/rng.h"
#include "text/utf8.h"

namespace espalier {
namespace {

std::string text_of(const std::vector<CharChange>& chars) {
  std::string text;
  for (const CharChange& c : chars) append_utf8(text, c.code_point);
  return text;
}

std::string by_utf8proc(const std::string& text, UnicodeForm form) {
  const auto* const bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.c_str());
  utf8proc_uint8_t* const made = form == UnicodeForm::kNfc    ? utf8proc_NFC(bytes)
                                 : form == UnicodeForm::kNfd  ? utf8proc_NFD(bytes)
                                 : form == UnicodeForm::kNfkc ? utf8proc_NFKC(bytes)
                                                              : utf8proc_NFKD(bytes);
  const std::string result(reinterpret_cast<const char*>(made));
  std::free(made);
  return result;
}

constexpr UnicodeForm kForms[] = {UnicodeForm::kNfc, UnicodeForm::kNfd, UnicodeForm::kNfkc, UnicodeForm::kNfkd};

// Blocks that compose, decompose and reorder, all older than Unicode 12.0.
std::string random_text(const Rng& rng, uint64_t& next) {
  static constexpr uint32_t kBlocks[][2] = {{0x41, 0x7A},     {0xC0, 0x17F},    {0x300, 0x345},   {0x591, 0x5C7},
                                            {0x900, 0x97F},   {0xB80, 0xBCD},   {0x1100, 0x11C2}, {0xAC00, 0xD7A3},
                                            {0x1E00, 0x1FFE}, {0x2460, 0x24FF}, {0x3040, 0x30FF}, {0xF900, 0xFAD9}};
  std::string text;
  for (uint64_t n = 1 + rng.below(next++, 12); n > 0; --n) {
    const auto& block = kBlocks[rng.below(next++, std::size(kBlocks))];
    append_utf8(text, block[0] + uint32_t(rng.below(next++, block[1] - block[0] + 1)));
  }
  return text;
}

TEST(UnicodeForms, EqualUtf8procs) {
  const Rng rng(3, Purpose::kTest);
  uint64_t next = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::string text = random_text(rng, next);
    for (const UnicodeForm form : kForms) {
      const std::string expected = by_utf8proc(text, form);
      ASSERT_EQ(text_of(unicode_form(text, form)), expected) << text;
      EXPECT_TRUE(!surely_in_form(text, form) || text == expected) << text;
    }
  }
}

TEST(UnicodeForms, AGlanceIsEnoughForMostText) {
  for (const char* text : {"", "plain", "caf\u00e9", "\u4e2d\u6587", "\ud55c\uad6d\uc5b4", "\u0420\u0443\u0441"})
    EXPECT_TRUE(surely_in_form(text, UnicodeForm::kNfc)) << text;
  EXPECT_FALSE(surely_in_form("cafe\u0301", UnicodeForm::kNfc));
  EXPECT_FALSE(surely_in_form("\u1112\u1161", UnicodeForm::kNfc));
}

TEST(UnicodeForms, ChangesSayWhatWasJoined) {
  const std::vector<CharChange> joined = unicode_form("e\u0301x", UnicodeForm::kNfc);
  ASSERT_EQ(joined.size(), 2u);
  EXPECT_EQ(joined[0].code_point, 0xE9u);
  EXPECT_EQ(joined[0].change, -1);  // one character fewer
  EXPECT_EQ(joined[1].change, 0);
}

TEST(UnicodeForms, LowerCase) {
  EXPECT_EQ(lower_case('A'), std::vector<uint32_t>{'a'});
  EXPECT_EQ(lower_case(0x130), (std::vector<uint32_t>{'i', 0x307}));
  EXPECT_EQ(lower_case(0x416), std::vector<uint32_t>{0x436});
  EXPECT_EQ(lower_case('1'), std::vector<uint32_t>{'1'});
}

}  // namespace
}  // namespace espalier
