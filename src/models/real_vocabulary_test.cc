// The vocabularies of the real models of tools/get_model.sh against the `tokenizers` library's ids on hard strings:
// tests/golden/tokenizer/real.json, see tools/make_vocab_golden.py.
#include <algorithm>

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/json.h"
#include "base/json_value.h"
#include "formats/hf_folder.h"
#include "models/gguf_tokenizer.h"
#include "text/gguf_tokenizer.h"
#include "text/utf8.h"

namespace espalier {
namespace {

const Json& golden() {
  static const Json json = read_json_file(std::string(ESP_SOURCE_DIR) + "/tests/golden/tokenizer/real.json");
  return json;
}

/// Numbers in LEB128, in base64.
std::vector<int32_t> unpack(const std::string& base64) {
  static const std::string kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<int32_t> numbers;
  uint32_t bits = 0, number = 0;
  int have = 0, shift = 0;
  for (const char c : base64) {
    if (c == '=') break;
    bits = bits << 6 | uint32_t(kDigits.find(c));
    if ((have += 6) < 8) continue;
    have -= 8;
    const uint32_t byte = bits >> have & 255;
    number |= (byte & 127) << shift;
    shift += 7;
    if (byte < 128) numbers.push_back(int32_t(std::exchange(number, 0))), shift = 0;
  }
  return numbers;
}

std::string case_text(const Json& entry) {
  if (entry.contains("text")) return entry["text"].get<std::string>();
  const auto hex = entry["hex"].get<std::string>();
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) bytes += char(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

class RealVocabulary : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    path_ = model_cache_folder() + "/" + GetParam() + ".gguf";
    if (!is_file(path_)) GTEST_SKIP() << path_ << " is not there; tools/get_model.sh " << GetParam() << " fetches it";
    for (const Json& vocabulary : golden()["vocabularies"])
      for (const Json& name : vocabulary["models"])
        if (name == GetParam()) expected_ = &vocabulary;
    ASSERT_NE(expected_, nullptr);
  }

  std::string path_;
  const Json* expected_ = nullptr;
};

TEST_P(RealVocabulary, IdsEqualTheLibrarys) {
  const Tokenizer tokenizer = load_tokenizer(path_);
  const std::vector<int32_t> numbers = unpack((*expected_)["ids"].get<std::string>());
  const auto lossy = (*expected_)["lossy"].get<std::vector<size_t>>();
  auto next = numbers.begin();
  size_t i = 0;
  for (const Json& entry : golden()["cases"]) {
    const std::string text = case_text(entry);
    const std::vector<int32_t> ids(next + 1, next + 1 + *next);
    next += 1 + *next;
    EXPECT_EQ(tokenizer.encode(text), ids) << entry.dump();
    const bool comes_back = tokenizer.decode(ids) == repair_utf8(text).text;
    EXPECT_EQ(comes_back, std::find(lossy.begin(), lossy.end(), i) == lossy.end()) << entry.dump();
    ++i;
  }
  EXPECT_EQ(next, numbers.end());
  EXPECT_GE(i, 150u);
  EXPECT_EQ(tokenizer.encode("a", {.add_special = true}), (*expected_)["around"].get<std::vector<int32_t>>());
}

TEST_P(RealVocabulary, ComesBackFromGguf) {
  const Tokenizer tokenizer = load_tokenizer(path_);
  const GgufVocabulary vocabulary = vocabulary_of(tokenizer, tokenizer.vocab_size(), path_);
  const Tokenizer again = tokenizer_of(vocabulary, "what was written of " + path_);
  EXPECT_EQ(again.vocab_hash(), tokenizer.vocab_hash());
  for (const Json& entry : golden()["cases"]) {
    const std::string text = case_text(entry);
    EXPECT_EQ(again.encode(text), tokenizer.encode(text)) << entry.dump();
  }
}

INSTANTIATE_TEST_SUITE_P(Models, RealVocabulary,
                         testing::Values("qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b", "smollm2-135m", "gemma-3-270m"),
                         [](const auto& model) {
                           std::string name = model.param;
                           std::replace_if(name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
                           return name;
                         });

}  // namespace
}  // namespace espalier
