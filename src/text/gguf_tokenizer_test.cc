#include "text/gguf_tokenizer.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "text/byte_alphabet.h"

namespace espalier {
namespace {

/// All bytes, four merges, a control token, a user-defined one, and an unused row.
GgufVocabulary small(const std::string& pre) {
  GgufVocabulary v{.model = "gpt2", .pre = pre};
  v.tokens = {"<|bos|>", "<|eos|>", "<tool>"};
  v.types = {GgufVocabulary::kControl, GgufVocabulary::kControl, GgufVocabulary::kUserDefined};
  const auto add = [&](const std::string& token, int32_t type) {
    v.tokens.push_back(token);
    v.types.push_back(type);
  };
  for (const uint8_t byte : bytes_in_char_order()) {
    const char c = char(byte);
    add(bytes_to_chars({&c, 1}), GgufVocabulary::kNormal);
  }
  v.merges = {"a b", "Ġ ab", "1 2", "\" \\"};
  for (const char* token : {"ab", "Ġab", "12", "\"\\"}) add(token, GgufVocabulary::kNormal);
  add("[PAD263]", GgufVocabulary::kUnused);
  v.bos = 0;
  v.eos = 1;
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

TEST(GgufTokenizer, EncodesByTheRulesOfItsName) {
  for (const char* pre : {"gpt-2", "llama-bpe", "qwen2", "smollm", "deepseek-r1-qwen"}) {
    const Tokenizer t = tokenizer_of(small(pre), "x.gguf");
    const auto id = [&](std::string_view token) { return *t.id_of(token); };
    EXPECT_EQ(t.encode("ab ab"), (std::vector<int32_t>{id("ab"), id("Ġab")})) << pre;
    EXPECT_EQ(t.encode("<|eos|>ab<tool>"), (std::vector<int32_t>{1, id("ab"), 2})) << pre;
    // GPT-2 and Llama 3 take numbers together, the others digit by digit.
    const bool whole = pre == std::string("gpt-2") || pre == std::string("llama-bpe");
    EXPECT_EQ(t.encode("12"), whole ? (std::vector<int32_t>{id("12")}) : (std::vector<int32_t>{id("1"), id("2")}))
        << pre;
    EXPECT_EQ(t.decode(t.encode("x\n\"\\ é12")), "x\n\"\\ é12") << pre;
    EXPECT_EQ(t.bos(), 0);
    EXPECT_EQ(t.eos(), 1);
    EXPECT_TRUE(t.is_special(0));
    EXPECT_FALSE(t.is_special(2));
    EXPECT_EQ(t.id_of("[PAD263]"), std::nullopt);
  }
}

// Qwen's files ask for composed characters; the others take a text as it is.
TEST(GgufTokenizer, ComposesWhereTheModelsFilesDo) {
  const std::string composed = "\u00e9", apart = "e\u0301";
  for (const char* pre : {"gpt-2", "llama-bpe", "qwen2", "smollm", "deepseek-r1-qwen"}) {
    const Tokenizer t = tokenizer_of(small(pre), "x.gguf");
    const bool qwen = pre == std::string("qwen2") || pre == std::string("deepseek-r1-qwen");
    EXPECT_EQ(t.encode(apart) == t.encode(composed), qwen) << pre;
    EXPECT_EQ(t.decode(t.encode(apart)), qwen ? composed : apart) << pre;
  }
}

TEST(GgufTokenizer, ANormalizerWithoutANameIsRefused) {
  std::string json = tokenizer_of(small("qwen2"), "x.gguf").to_json();
  const std::string nfc = R"("normalizer":{"type":"NFC"})";
  ASSERT_NE(json.find(nfc), json.npos);
  json.replace(json.find(nfc), nfc.size(), R"("normalizer":null)");
  EXPECT_THROW(vocabulary_of(Tokenizer::from_json(json, "x"), 264, "x"), Error);
}

TEST(GgufTokenizer, PutsBosAndEosWhereTheFileAsks) {
  for (const bool bos : {false, true}) {
    for (const bool eos : {false, true}) {
      GgufVocabulary v = small("gpt-2");
      v.add_bos = bos;
      v.add_eos = eos;
      std::vector<int32_t> expected;
      if (bos) expected.push_back(0);
      const Tokenizer t = tokenizer_of(v, "x.gguf");
      expected.push_back(*t.id_of("ab"));
      if (eos) expected.push_back(1);
      EXPECT_EQ(t.encode("ab", {.add_special = true}), expected);
    }
  }
}

TEST(GgufTokenizer, ComesBackAsItWas) {
  for (const char* pre : {"gpt-2", "llama-bpe", "qwen2", "smollm"}) {
    GgufVocabulary v = small(pre);
    v.add_bos = true;
    const Tokenizer t = tokenizer_of(v, "x.gguf");
    const GgufVocabulary back = vocabulary_of(t, int64_t(v.tokens.size()), "x");
    EXPECT_EQ(back.pre, pre);
    EXPECT_EQ(back.tokens, v.tokens);
    EXPECT_EQ(back.types, v.types);
    EXPECT_EQ(back.merges, v.merges);
    EXPECT_EQ(back.bos, v.bos);
    EXPECT_EQ(back.eos, v.eos);
    EXPECT_TRUE(back.add_bos);
    EXPECT_FALSE(back.add_eos);
  }
}

TEST(GgufTokenizer, NamesWhatItDoesNotKnow) {
  GgufVocabulary v = small("gpt-2");
  v.model = "bert";
  expect_refused(Code::kUnsupported, "'tokenizer.ggml.model' is 'bert'", v);
  expect_refused(Code::kUnsupported, "'tokenizer.ggml.pre' is 'tekken'", small("tekken"));
}

TEST(GgufTokenizer, NamesWhatDoesNotFit) {
  GgufVocabulary v = small("gpt-2");
  v.types.pop_back();
  expect_refused(Code::kBadData, "264 tokens and 263 token types", v);
  v = small("gpt-2");
  v.eos = 264;
  expect_refused(Code::kBadData, "'tokenizer.ggml.eos_token_id' is 264", v);
  v = small("gpt-2");
  v.merges.push_back("absent x");
  expect_refused(Code::kBadData, "absent", v);
  v = small("gpt-2");
  v.tokens[100] = "\xff";
  expect_refused(Code::kBadData, "token 100 is no UTF-8", v);
  v = small("gpt-2");
  v.tokens[100] = v.tokens[101];
  expect_refused(Code::kBadData, "twice", v);
  v = small("gpt-2");
  v.types[7] = 7;
  expect_refused(Code::kBadData, "the type of token 7 is 7", v);
}

TEST(GgufTokenizer, RefusesMoreTokensThanTheModelHas) {
  const Tokenizer t = tokenizer_of(small("gpt-2"), "x.gguf");
  EXPECT_THROW(vocabulary_of(t, 100, "x"), Error);
  EXPECT_EQ(vocabulary_of(t, 300, "x").tokens[299], "[PAD299]");
}

}  // namespace
}  // namespace espalier
