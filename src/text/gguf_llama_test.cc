#include "text/gguf_llama.h"

#include <limits>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace espalier {
namespace {

/// Specials, bytes, letters, runs of spaces as Gemma has them, and some words; earlier words have higher scores.
GgufVocabulary small(bool prefix) {
  GgufVocabulary v{.model = "llama", .add_space_prefix = prefix};
  const auto add = [&](const std::string& token, int32_t type, float score) {
    v.tokens.push_back(token);
    v.types.push_back(type);
    v.scores.push_back(score);
  };
  add("<unk>", GgufVocabulary::kUnknown, 0);
  add("<s>", GgufVocabulary::kControl, 0);
  add("</s>", GgufVocabulary::kControl, 0);
  for (int byte = 0; byte < 256; ++byte) add(fmt::format("<0x{:02X}>", byte), GgufVocabulary::kByte, 0);
  for (const char* run : {"  ", "   ", "    "}) add(run, GgufVocabulary::kUserDefined, -1000);
  float score = 0;
  for (const char* word : {"ab", "\u2581a", "\u2581ab", "bc", "abc"}) add(word, GgufVocabulary::kNormal, score--);
  for (const char* letter : {"\u2581", "a", "b", "c", "\u4e00"}) add(letter, GgufVocabulary::kNormal, score--);
  v.bos = 1;
  v.eos = 2;
  v.unknown = 0;
  v.add_bos = true;
  return v;
}

void expect_refused(Code code, const std::string& part, const GgufVocabulary& v) {
  try {
    tokenizer_of(v, "x.gguf");
    ADD_FAILURE() << "no error; expected one with: " << part;
  } catch (const Error& e) {  // the edge: the error is what is tested
    EXPECT_EQ(e.code(), code) << e.what();
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
  }
}

std::vector<std::string> pieces(const Tokenizer& t, std::string_view text, bool special = false) {
  std::vector<std::string> tokens;
  for (const int32_t id : t.encode(text, {.add_special = special})) tokens.push_back(t.token_text(id));
  return tokens;
}

using Texts = std::vector<std::string>;

TEST(GgufLlama, MergesTheHighestScoreFirst) {
  const Tokenizer t = tokenizer_of(small(false), "x.gguf");
  EXPECT_EQ(pieces(t, "abc"), (Texts{"abc"}));
  EXPECT_EQ(pieces(t, "bc"), (Texts{"bc"}));
  EXPECT_EQ(pieces(t, "a abc"), (Texts{"a", "\u2581ab", "c"}));  // "ab" and its space come before "bc"
  EXPECT_EQ(pieces(t, "a\u4e00z"), (Texts{"a", "\u4e00", "<0x7A>"}));
  EXPECT_EQ(pieces(t, "\u00e9"), (Texts{"<0xC3>", "<0xA9>"}));
  EXPECT_EQ(pieces(t, "a", true), (Texts{"<s>", "a"}));
  EXPECT_EQ(pieces(t, "a</s>b"), (Texts{"a", "</s>", "b"}));
}

// Runs of spaces grow before anything else is merged, the longest so far first.
TEST(GgufLlama, UserDefinedTokensComeFirst) {
  const Tokenizer t = tokenizer_of(small(false), "x.gguf");
  EXPECT_EQ(pieces(t, "  a"), (Texts{"\u2581\u2581", "a"}));
  EXPECT_EQ(pieces(t, "   ab"), (Texts{"\u2581\u2581\u2581", "ab"}));
  EXPECT_EQ(pieces(t, "       "), (Texts{"\u2581\u2581\u2581\u2581", "\u2581\u2581\u2581"}));
  EXPECT_EQ(pieces(t, "\u2581\u2581a"), (Texts{"\u2581\u2581", "a"}));  // the mark itself, in the raw text
}

TEST(GgufLlama, APrefixIsASpaceThatDecodingTakesOff) {
  const Tokenizer with = tokenizer_of(small(true), "x.gguf"), without = tokenizer_of(small(false), "x.gguf");
  EXPECT_EQ(pieces(with, "ab"), (Texts{"\u2581ab"}));
  EXPECT_EQ(pieces(without, "ab"), (Texts{"ab"}));
  for (const char* text : {"ab c", " a", "a  b   ", "\u00e9\n\u4e00"}) {
    EXPECT_EQ(with.decode(with.encode(text)), text);
    EXPECT_EQ(without.decode(without.encode(text)), text);
  }
}

TEST(GgufLlama, ComesBackAsItWas) {
  for (const bool prefix : {false, true}) {
    const GgufVocabulary v = small(prefix);
    const GgufVocabulary back = vocabulary_of(tokenizer_of(v, "x.gguf"), int64_t(v.tokens.size()) + 2, "x");
    EXPECT_EQ(back.model, "llama");
    EXPECT_EQ(back.add_space_prefix, prefix);
    EXPECT_TRUE(back.add_bos);
    EXPECT_EQ(back.unknown, 0);
    ASSERT_EQ(back.tokens.size(), v.tokens.size() + 2);
    EXPECT_EQ(back.types.back(), GgufVocabulary::kUnused);
    for (size_t id = 0; id < v.tokens.size(); ++id) {
      EXPECT_EQ(back.tokens[id], v.tokens[id]);
      EXPECT_EQ(back.types[id], v.types[id]) << v.tokens[id];
    }
    // Scores may be others; the merges are the same.
    const auto again = llama_merges(back, llama_tokens(back), "x"), before = llama_merges(v, llama_tokens(v), "x");
    ASSERT_EQ(again.size(), before.size());
    for (size_t i = 0; i < before.size(); ++i) {
      EXPECT_EQ(again[i].left, before[i].left) << i;
      EXPECT_EQ(again[i].result, before[i].result) << i;
    }
  }
}

TEST(GgufLlama, MergesThatNoScoresGiveAreRefused) {
  std::string json = tokenizer_of(small(false), "x.gguf").to_json();
  const std::string merge = R"(["b","c"],)";
  ASSERT_NE(json.find(merge), json.npos);
  json.erase(json.find(merge), merge.size());
  EXPECT_THROW(vocabulary_of(Tokenizer::from_json(json, "x"), 300, "x"), Error);
}

TEST(GgufLlama, NamesWhatDoesNotFit) {
  GgufVocabulary v = small(false);
  v.scores.clear();
  expect_refused(Code::kBadData, "0 scores", v);
  v = small(false);
  v.scores[5] = std::numeric_limits<float>::quiet_NaN();
  expect_refused(Code::kBadData, "the score of token 5", v);
  v = small(false);
  v.unknown = 9999;
  expect_refused(Code::kBadData, "'tokenizer.ggml.unknown_token_id' is 9999", v);
}

// Each of 500 tokens of one letter can be made of shorter ones in as many ways as it has letters, which for longer and
// longer tokens takes far more memory than the file.
TEST(GgufLlama, ManyWaysToMergeAreRefused) {
  GgufVocabulary v{.model = "llama"};
  for (size_t n = 1; n <= 500; ++n) v.tokens.emplace_back(n, 'a');
  v.scores.assign(v.tokens.size(), 0);
  expect_refused(Code::kBadData, "more than", v);
}

}  // namespace
}  // namespace espalier
