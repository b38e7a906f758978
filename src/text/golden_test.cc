// Exact agreement with the `tokenizers` library on hard strings: tests/golden/tokenizer, see
// tools/make_tokenizer_golden.py.
#include <gtest/gtest.h>

#include <map>

#include "base/json.h"
#include "base/json_value.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace espalier {
namespace {

const std::string kFolder = std::string(ESP_SOURCE_DIR) + "/tests/golden/tokenizer/";

const Json& golden() {
  static const Json json = read_json_file(kFolder + "cases.json");
  return json;
}

std::map<std::string, Tokenizer> build_variants() {
  std::map<std::string, Tokenizer> tokenizers;
  for (const Json& variant : golden()["variants"]) {
    Json json = read_json_file(kFolder + variant["base"].get<std::string>() + ".json");
    json.merge_patch(variant["patch"]);
    const auto name = variant["name"].get<std::string>();
    tokenizers.emplace(name, Tokenizer::from_json(json.dump(), name));
  }
  return tokenizers;
}

std::string case_text(const Json& entry) {
  if (entry.contains("text")) return entry["text"].get<std::string>();
  const auto hex = entry["hex"].get<std::string>();
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) bytes += char(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

std::vector<int32_t> expected_ids(const Json& entry, const std::string& variant) {
  const Json& ids = entry["ids"];
  return ids[ids.contains(variant) ? variant : "gpt2"].get<std::vector<int32_t>>();
}

TEST(Golden, IdsEqualTheLibrarys) {
  const auto tokenizers = build_variants();
  int compared = 0;
  for (const Json& entry : golden()["cases"]) {
    const std::string text = case_text(entry);
    for (const auto& [name, tokenizer] : tokenizers) {
      EXPECT_EQ(tokenizer.encode(text), expected_ids(entry, name)) << name << ": " << entry.dump();
      ++compared;
    }
  }
  EXPECT_GT(compared, 150 * 8);
}

TEST(Golden, PiecesAreTheSameIdsAndTileTheText) {
  const auto tokenizers = build_variants();
  for (const Json& entry : golden()["cases"]) {
    const std::string text = case_text(entry);
    for (const auto& [name, tokenizer] : tokenizers) {
      std::vector<int32_t> ids;
      uint32_t end = 0;
      for (const TokenPiece& piece : tokenizer.encode_pieces(text)) {
        ids.push_back(piece.id);
        // A space put before the text covers what the first character covers, as in the library.
        if (name == "prefix_space") {
          EXPECT_LE(piece.begin, end) << entry.dump();
        } else {
          EXPECT_EQ(piece.begin, end) << name << ": " << entry.dump();
        }
        end = piece.end;
        // Where nothing was repaired, swallowed or put before it, a token covers its own bytes.
        if (is_utf8(text) && (name == "gpt2" || name == "llama3")) {
          EXPECT_EQ(tokenizer.token_bytes(piece.id), text.substr(piece.begin, piece.end - piece.begin));
        }
      }
      EXPECT_EQ(end, text.size()) << name << ": " << entry.dump();
      EXPECT_EQ(ids, tokenizer.encode(text)) << name << ": " << entry.dump();
    }
  }
}

TEST(Golden, DecodingGivesTheTextBack) {
  const auto tokenizers = build_variants();
  for (const Json& entry : golden()["cases"]) {
    const std::string text = repair_utf8(case_text(entry)).text;
    for (const char* name : {"gpt2", "llama3", "llama3_ignore_merges", "qwen2", "regex", "digits"}) {
      const Tokenizer& tokenizer = tokenizers.at(name);
      EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text) << name << ": " << entry.dump();
    }
  }
}

TEST(Golden, AddSpecialFollowsThePostProcessor) {
  const auto tokenizers = build_variants();
  const Tokenizer& llama3 = tokenizers.at("llama3");
  const EncodeOptions special{.add_special = true};
  EXPECT_EQ(llama3.bos(), llama3.id_of("<|begin_of_text|>"));
  EXPECT_EQ(llama3.encode("", special), std::vector<int32_t>{*llama3.bos()});
  EXPECT_EQ(llama3.encode_pieces("a", special).size(), 2u);
  EXPECT_EQ(llama3.encode_pieces("a", special)[0].end, 0u);
  EXPECT_TRUE(tokenizers.at("gpt2").encode("", special).empty());
}

TEST(Golden, SpecialTokensAreTextWhenAsked) {
  const auto tokenizers = build_variants();
  const Tokenizer& gpt2 = tokenizers.at("gpt2");
  const std::string text = "a<|endoftext|>b";
  const std::vector<int32_t> ids = gpt2.encode(text, {.parse_special = false});
  for (const int32_t id : ids) EXPECT_FALSE(gpt2.is_special(id));
  EXPECT_EQ(gpt2.decode(ids), text);
  EXPECT_EQ(gpt2.decode(gpt2.encode(text), true), "ab");
}

}  // namespace
}  // namespace espalier
