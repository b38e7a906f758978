// The hand-written splitters against PCRE2 on random text.
#include "text/split.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/rng.h"
#include "text/pre_tokenizer.h"
#include "text/regex.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace espalier {
namespace {

PreTokenizer::Step regex_step(const std::string& regex) {
  return SplitStep{Pattern(RegexSplitter(regex, "the test")), SplitBehavior::kIsolated, false};
}

std::vector<std::string> pieces_of(const PreTokenizer& pre_tokenizer, const std::string& text) {
  std::vector<std::string> pieces;
  pre_tokenizer.split(text, [&](size_t begin, size_t end) { pieces.push_back(text.substr(begin, end - begin)); });
  return pieces;
}

std::vector<std::string> pieces_of(const SplitPattern& pattern, const std::string& text) {
  return pieces_of(PreTokenizer({&pattern}), text);
}

/// Numbers one after the other.
struct Draw {
  Rng rng{17, Purpose::kTest};
  uint64_t index = 0;
  uint32_t below(uint32_t n) { return uint32_t(rng.below(index++, n)); }
};

/// Code points that try every branch: what the patterns name, each class in each length of UTF-8, and any other that
/// PCRE2 and we class alike (its tables are older: letters assigned since Unicode 14 are left out, and U+180E, which
/// its \s takes for a space).
std::string random_text(Draw& draw) {
  static const uint32_t common[] = {' ', ' ', ' ', '\n', '\r', '\t', '\'', 's', 'S', 't', 'l', 'L', 'v', 'e', 'r', 'd',
                                    'm', 'a', 'Z', '0', '9', '.', '-', 0x17F, 0xA0, 0x85, 0xE9, 0x301, 0xBD, 0x4E2D,
                                    0x3000, 0x2028, 0x1F642, 0x661, 0x200D, 0x10FFFF, 0};
  std::string text;
  const uint64_t length = draw.below(40);
  for (uint64_t i = 0; i < length; ++i) {
    uint32_t c = common[draw.below(std::size(common))];
    if (draw.below(8) == 0) c = draw.below(0x3000);
    if (c == 0x180E || (c >= 0xD800 && c < 0xE000)) c = 'x';
    if (c == 0x1C89 || c == 0x1C8A) c = 'y';
    append_utf8(text, c);
  }
  return text;
}

class SplitAgainstPcre2 : public testing::TestWithParam<const SplitPattern*> {};

TEST_P(SplitAgainstPcre2, GivesTheSamePieces) {
  const SplitPattern& pattern = *GetParam();
  const PreTokenizer regex({regex_step(pattern.regex)});
  Draw draw;
  for (int i = 0; i < 20000; ++i) {
    const std::string text = random_text(draw);
    ASSERT_EQ(pieces_of(pattern, text), pieces_of(regex, text)) << pattern.name << ": " << testing::PrintToString(text);
  }
}

INSTANTIATE_TEST_SUITE_P(Patterns, SplitAgainstPcre2, testing::Values(&kGpt2Split, &kLlama3Split, &kQwen2Split),
                         [](const auto& pattern) { return std::string(pattern.param->name); });

using Pieces = std::vector<std::string>;

TEST(Split, KnownPieces) {
  EXPECT_EQ(pieces_of(kGpt2Split, "I'll pay  $12,345\n\n  ok "),
            (Pieces{"I", "'ll", " pay", " ", " $", "12", ",", "345", "\n\n ", " ok", " "}));
  EXPECT_EQ(pieces_of(kLlama3Split, "I'LL pay  $12345.\n\n  ok "),
            (Pieces{"I", "'LL", " pay", " ", " $", "123", "45", ".\n\n", " ", " ok", " "}));
  EXPECT_EQ(pieces_of(kQwen2Split, "(x12)"), (Pieces{"(x", "1", "2", ")"}));
  EXPECT_EQ(pieces_of(kGpt2Split, ""), Pieces{});
}

TEST(Split, PatternsAreFoundByNameAndRegex) {
  EXPECT_EQ(find_split_by_name("llama3"), &kLlama3Split);
  EXPECT_EQ(find_split_by_name("llama4"), nullptr);
  EXPECT_EQ(find_split_by_regex(kQwen2Split.regex), &kQwen2Split);
  EXPECT_EQ(find_split_by_regex("'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"),
            &kGpt2Split);
  EXPECT_EQ(find_split_by_regex("\\p{L}+"), nullptr);
}

TEST(Regex, GapsBetweenMatchesArePieces) {
  const PreTokenizer digits({regex_step("[0-9]")});
  EXPECT_EQ(pieces_of(digits, "a12bc"), (Pieces{"a", "1", "2", "bc"}));
  EXPECT_EQ(pieces_of(digits, "1"), Pieces{"1"});
  EXPECT_EQ(pieces_of(digits, ""), Pieces{});
  // A second step sees each piece alone.
  const PreTokenizer both({regex_step("[0-9]"), &kGpt2Split});
  EXPECT_EQ(pieces_of(both, "a b2 c"), (Pieces{"a", " b", "2", " c"}));
  // Matches of nothing are no pieces.
  EXPECT_EQ(pieces_of(PreTokenizer({regex_step("x*")}), "axb"), (Pieces{"a", "x", "b"}));
}

TEST(Regex, ALongMatchNeedsNoLargeStack) {
  const std::string text(100000, 'a');
  EXPECT_EQ(pieces_of(PreTokenizer({regex_step("(?:a|b(c)?)+")}), text), Pieces{text});
}

TEST(Regex, ABadPatternIsAnErrorThatShowsIt) {
  try {
    RegexSplitter("a(b", "some.json");
    FAIL() << "compiled";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kUnsupported);
    EXPECT_NE(std::string(e.what()).find("a(b"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("some.json"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace espalier
