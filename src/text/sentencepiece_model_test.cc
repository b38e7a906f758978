#include "text/sentencepiece_model.h"

#include <algorithm>
#include <filesystem>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_value.h"
#include "text/base64.h"

namespace espalier {
namespace {

const Json& golden() {
  static const Json json = read_json_file(std::string(ESP_SOURCE_DIR) + "/tests/golden/tokenizer/sentencepiece.json");
  return json;
}

std::string bytes_of(const Json& model) { return *from_base64(model.at("model").get<std::string>()); }

std::string bytes_of_named(const std::string& name) {
  for (const Json& model : golden().at("models"))
    if (model.at("name") == name) return bytes_of(model);
  return "";
}

TEST(SentencePiece, IdsAndTextsEqualTheLibrarys) {
  for (const Json& model : golden().at("models")) {
    const auto name = model.at("name").get<std::string>();
    const Tokenizer tokenizer = sentencepiece_tokenizer(bytes_of(model), name);
    const Tokenizer again = Tokenizer::from_json(tokenizer.to_json(), name);
    EXPECT_EQ(again.vocab_hash(), tokenizer.vocab_hash()) << name;
    const Json& strings = golden().at("strings");
    for (size_t i = 0; i < strings.size(); ++i) {
      const auto text = strings[i].get<std::string>();
      const std::vector<int32_t> ids = model.at("ids")[i];
      // SentencePiece reads "<s>" and "<unk>" as letters. A Unigram model of tokenizer.json has them among its pieces,
      // here as in the `tokenizers` library.
      if (name.starts_with("unigram") && (text == "<unk>" || text.starts_with("<s>"))) continue;
      const EncodeOptions letters = {.parse_special = false};
      EXPECT_EQ(tokenizer.encode(text, letters), ids) << name << ": " << strings[i];
      EXPECT_EQ(again.encode(text, letters), ids) << name << ": " << strings[i];
      const bool unknown = std::find(ids.begin(), ids.end(), 0) != ids.end();  // which the library writes as U+2047
      if (unknown) continue;
      EXPECT_EQ(Json(tokenizer.decode(ids)), model.at("texts")[i]) << name << ": " << strings[i];
    }
  }
}

TEST(SentencePiece, AFolderSaysWhatStandsAroundATextAndIsSavedWhole) {
  const std::string folder = testing::TempDir() + "/sentencepiece", saved = folder + "/saved";
  std::filesystem::create_directories(saved);
  write_file_atomic(folder + "/tokenizer.model", bytes_of_named("bpe_llama"));
  EXPECT_EQ(Tokenizer::load(folder).encode("hello", {.add_special = true}),
            Tokenizer::load(folder).encode("hello"));
  write_file_atomic(folder + "/tokenizer_config.json", R"({"tokenizer_class": "LlamaTokenizer"})");
  const Tokenizer llama = Tokenizer::load(folder);
  EXPECT_EQ(llama.bos(), 1);
  EXPECT_EQ(llama.eos(), 2);
  std::vector<int32_t> with_bos = llama.encode("hello");
  with_bos.insert(with_bos.begin(), 1);
  EXPECT_EQ(llama.encode("hello", {.add_special = true}), with_bos);
  llama.save(saved);
  EXPECT_EQ(Tokenizer::load(saved).encode("hello  there", {.add_special = true}),
            llama.encode("hello  there", {.add_special = true}));
  EXPECT_EQ(Tokenizer::load(folder + "/tokenizer.model").vocab_hash(), llama.vocab_hash());
  write_file_atomic(folder + "/tokenizer_config.json", R"({"add_bos_token": false, "add_eos_token": true})");
  std::vector<int32_t> with_eos = llama.encode("hello");
  with_eos.push_back(2);
  EXPECT_EQ(Tokenizer::load(folder).encode("hello", {.add_special = true}), with_eos);
  std::filesystem::remove_all(folder);
}

TEST(SentencePiece, WhatIsNoModelGivesOneClearError) {
  const auto refusal = [](const std::string& bytes) -> std::string {
    try {
      sentencepiece_tokenizer(bytes, "x.model");
    } catch (const Error& e) {
      return e.what();
    }
    return "read";
  };
  const std::string good = bytes_of_named("unigram_rules");
  EXPECT_EQ(refusal(good), "read");
  for (size_t size = 0; size < good.size(); size += 1 + size / 16)  // pieces may end where the file is cut
    EXPECT_TRUE(refusal(good.substr(0, size)) == "read" || refusal(good.substr(0, size)).find("x.model") !=
                std::string::npos) << size;
  const std::string piece = "\x0a\x03\x0a\x01" "a";
  const std::pair<std::string, const char*> cases[] = {
      {"", "holds no pieces"},
      {"version https://git-lfs.github.com/spec/v1", "x.model"},
      {"{\"model\": 1}", "x.model"},
      {piece + "\x12\x02\x18\x03", "type 3 is not supported"},
      {piece + "\x12\x03\xc0\x01\x01", "spaces behind words"},
      {"\x0a\x05\x0a\x01" "a\x18\x09", "the type of piece 0 is 9"},
      {"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "bytes where 0 are left"},
      {"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "more than 64 bits"},
      {"\x0b", "unknown type 3"},
      {"\x08\x01", "field 1 is of type 0, expected 2"},
      {"\x0a\x03\x0a\x01\xff", "is no UTF-8"},
  };
  for (const auto& [bytes, says] : cases)
    EXPECT_NE(refusal(bytes).find(says), std::string::npos) << refusal(bytes) << ", expected: " << says;
}

TEST(Base64, GoesBothWays) {
  const std::pair<const char*, const char*> cases[] = {{"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"},
                                                       {"\xff\xfe", "//4="}};  // RFC 4648, section 10
  for (const auto& [bytes, text] : cases) {
    EXPECT_EQ(to_base64(bytes), text);
    EXPECT_EQ(from_base64(text), bytes);
  }
  EXPECT_EQ(from_base64("Zg"), "f");
  EXPECT_EQ(from_base64("Z*=="), std::nullopt);
}

}  // namespace
}  // namespace espalier
