#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <span>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_value.h"
#include "base/rng.h"
#include "text/utf8.h"

namespace espalier {
namespace {

const std::string kFolder = std::string(ESP_SOURCE_DIR) + "/tests/golden/tokenizer/";

Json base_json(const char* name) { return read_json_file(kFolder + name + ".json"); }

const Tokenizer& gpt2() {
  static const Tokenizer tokenizer = Tokenizer::load(kFolder + "gpt2.json");
  return tokenizer;
}

/// A text of random bytes, mostly of the kinds that vocabularies know.
std::string random_bytes(uint64_t seed, size_t length) {
  const Rng rng(seed, Purpose::kTest);
  std::string text;
  for (size_t i = 0; i < length; ++i)
    text += rng.below(2 * i, 4) ? "aeoutns \n'"[rng.below(2 * i + 1, 10)] : char(rng.below(2 * i + 1, 256));
  return text;
}

TEST(Tokenizer, DecodingAnEncodedTextGivesItBack) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const std::string bytes = random_bytes(seed, 1 + seed * 3), text = repair_utf8(bytes).text;
    EXPECT_EQ(gpt2().decode(gpt2().encode(bytes)), text);
    EXPECT_EQ(gpt2().encode(bytes), gpt2().encode(text));
  }
}

TEST(Tokenizer, LongAndShortPiecesMergeAlike) {
  // The same letters as one piece of 500 (by heap) and, with ids from encode_pieces, compared with merging by hand.
  const Json json = base_json("gpt2");
  std::map<std::pair<std::string, std::string>, size_t> ranks;
  for (const Json& merge : json["model"]["merges"]) ranks.emplace(std::pair(merge[0], merge[1]), ranks.size());
  for (uint64_t seed = 0; seed < 30; ++seed) {
    const Rng rng(seed, Purpose::kTest, 1);
    std::vector<std::string> tokens;
    std::string text;
    for (size_t i = 0; i < (seed < 15 ? 40 : 500); ++i) tokens.emplace_back(1, "aeoutnsgl"[rng.below(i, 9)]);
    for (const std::string& token : tokens) text += token;
    for (;;) {
      size_t best = ranks.size(), at = 0;
      for (size_t i = 0; i + 1 < tokens.size(); ++i) {
        const auto rank = ranks.find({tokens[i], tokens[i + 1]});
        if (rank != ranks.end() && rank->second < best) best = rank->second, at = i;
      }
      if (best == ranks.size()) break;
      tokens[at] += tokens[at + 1];
      tokens.erase(tokens.begin() + ptrdiff_t(at) + 1);
    }
    std::vector<int32_t> expected;
    for (const std::string& token : tokens) expected.push_back(*gpt2().id_of(token));
    EXPECT_EQ(gpt2().encode(text), expected);
  }
}

TEST(Tokenizer, AFullCacheChangesNothing) {
  // More distinct pieces than the cache holds, so that it is emptied on the way.
  std::string text;
  for (int i = 0; i < 700000; ++i) text += fmt::format(" {:x}", i * 2654435761u);
  const std::string tail = text.substr(text.size() - 10000 - (text.size() - 10000) % 9);
  const Tokenizer fresh = Tokenizer::load(kFolder + "gpt2.json");
  EXPECT_EQ(fresh.decode(fresh.encode(text)), text);
  EXPECT_EQ(fresh.encode(tail), gpt2().encode(tail));
}

TEST(Tokenizer, ThreadsShareOneTokenizer) {
  const std::string text = random_bytes(5, 20000);
  const std::vector<int32_t> expected = gpt2().encode(text);
  std::vector<std::vector<int32_t>> results(4);
  std::vector<std::thread> threads;
  for (auto& result : results)
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) result = gpt2().encode(text);
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& result : results) EXPECT_EQ(result, expected);
}

TEST(Tokenizer, SafeCutsLeaveTheIdsAlone) {
  for (const char* name : {"gpt2.json", "llama3.json"}) {
    const Tokenizer tokenizer = Tokenizer::load(kFolder + name);
    int cuts = 0;
    for (uint64_t seed = 0; seed < 300; ++seed) {
      const std::string text = random_bytes(seed, 400) + (seed % 3 ? "<|endoftext|> a" : " \t\n a");
      const size_t at = tokenizer.safe_cut(std::string_view(text).substr(0, 20 + seed));
      if (at == 0) continue;
      std::vector<int32_t> ids = tokenizer.encode(text.substr(0, at));
      tokenizer.encode(text.substr(at), ids);
      EXPECT_EQ(ids, tokenizer.encode(text));
      ++cuts;
    }
    EXPECT_GT(cuts, 200);
  }
  EXPECT_EQ(gpt2().safe_cut("onelongword"), 0u);
  EXPECT_EQ(gpt2().safe_cut(""), 0u);
  EXPECT_EQ(gpt2().safe_cut("a b"), 1u);
}

TEST(DecodeStream, EqualsDecodeAtEverySplit) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    // Any ids at all, so that bytes come in every order, broken characters included.
    std::vector<int32_t> ids;
    const Rng rng(seed, Purpose::kTest, 2);
    for (uint64_t i = 0; i < 40; ++i) ids.push_back(int32_t(rng.below(i, i % 2 ? 700 : 257)));
    DecodeStream stream(gpt2());
    std::string text;
    for (size_t n = 0; n < ids.size(); ++n) {
      const std::string more = stream.push(ids[n]);
      EXPECT_TRUE(is_utf8(more));
      text += more;
      // What has come so far is the start of the whole, and only a character that may go on is missing.
      DecodeStream rest = stream;
      EXPECT_EQ(text + rest.finish(), gpt2().decode(std::span(ids).first(n + 1)));
    }
    EXPECT_EQ(text + stream.finish(), gpt2().decode(ids));
  }
}

TEST(DecodeStream, WaitsForTheWholeCharacter) {
  DecodeStream stream(gpt2());
  const std::vector<int32_t> ids = gpt2().encode("\U0001F9EA");
  ASSERT_GT(ids.size(), 1u);
  std::string text;
  for (size_t i = 0; i + 1 < ids.size(); ++i) text += stream.push(ids[i]);
  EXPECT_EQ(text, "");
  EXPECT_EQ(stream.push(ids.back()), "\U0001F9EA");
  EXPECT_EQ(stream.finish(), "");
  DecodeStream quiet(gpt2(), true);
  EXPECT_EQ(quiet.push(*gpt2().eos()), "");
}

TEST(Tokenizer, SaveAndLoadKeepEverything) {
  const std::string folder = testing::TempDir() + "/tokenizer_save";
  const Tokenizer llama3 = Tokenizer::load(kFolder + "llama3.json");
  llama3.save(folder);
  const Tokenizer again = Tokenizer::load(folder);
  EXPECT_EQ(again.vocab_hash(), llama3.vocab_hash());
  EXPECT_NE(again.vocab_hash(), gpt2().vocab_hash());
  EXPECT_EQ(again.bos(), llama3.bos());
  EXPECT_EQ(again.eos(), llama3.eos());
  EXPECT_EQ(again.to_json(), llama3.to_json());
  EXPECT_EQ(again.encode("It's 2024!"), llama3.encode("It's 2024!"));

  write_file_atomic(folder + "/tokenizer_config.json", R"({"eos_token": {"content": "<|eot|>"}, "bos_token": null})");
  EXPECT_EQ(Tokenizer::load(folder).eos(), llama3.id_of("<|eot|>"));
  write_file_atomic(folder + "/tokenizer_config.json", R"({"eos_token": "<|absent|>"})");
  EXPECT_THROW(Tokenizer::load(folder), Error);
  std::filesystem::remove_all(folder);
  EXPECT_THROW(Tokenizer::load(folder), Error);
}

TEST(Tokenizer, TokensOneByOne) {
  const std::optional<int32_t> id = gpt2().id_of("Ġ");
  ASSERT_TRUE(id);
  EXPECT_EQ(gpt2().token_bytes(*id), " ");
  EXPECT_EQ(gpt2().token_text(*id), "Ġ");
  EXPECT_EQ(gpt2().token_bytes(-1), "");
  EXPECT_EQ(gpt2().token_bytes(700), "");
  EXPECT_EQ(gpt2().id_of(" "), std::nullopt);
  EXPECT_EQ(gpt2().id_of("\xff"), std::nullopt);
  EXPECT_TRUE(gpt2().is_special(*gpt2().eos()));
  EXPECT_FALSE(gpt2().is_special(5));
  EXPECT_EQ(gpt2().vocab_size(), 700);
}

/// A way to spoil a good tokenizer.json, and what the one clear error must name.
struct Spoiled {
  const char* name;
  std::function<void(Json&)> spoil;
  Code code;
  const char* mentions;
};

void expect_errors(std::span<const Spoiled> cases) {
  for (const Spoiled& spoiled : cases) {
    Json json = base_json("gpt2");
    spoiled.spoil(json);
    try {
      Tokenizer::from_json(json.dump(), "spoiled.json");
      ADD_FAILURE() << spoiled.name << ": loaded";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), spoiled.code) << spoiled.name << ": " << e.what();
      EXPECT_NE(std::string(e.what()).find(spoiled.mentions), std::string::npos) << spoiled.name << ": " << e.what();
      EXPECT_NE(std::string(e.what()).find("spoiled.json"), std::string::npos) << spoiled.name << ": " << e.what();
    }
  }
}

TEST(Tokenizer, HostileFilesGiveOneClearError) {
  const Spoiled cases[] = {
      {"no model", [](Json& j) { j.erase("model"); }, Code::kBadData, "model"},
      {"an array", [](Json& j) { j = Json::array(); }, Code::kBadData, "array"},
      {"vocab of another type", [](Json& j) { j["model"]["vocab"] = Json::array(); }, Code::kBadData, "vocab"},
      {"id of another type", [](Json& j) { j["model"]["vocab"]["a"] = "1"; }, Code::kBadData, "\"a\""},
      {"a fraction as id", [](Json& j) { j["model"]["vocab"]["a"] = 1.5; }, Code::kBadData, "1.5"},
      {"a negative id", [](Json& j) { j["model"]["vocab"]["a"] = -1; }, Code::kBadData, "-1"},
      {"a huge id", [](Json& j) { j["model"]["vocab"]["a"] = int64_t{1} << 31; }, Code::kBadData, "2147483648"},
      {"an id beyond 64 bits", [](Json& j) { j["model"]["vocab"]["a"] = ~uint64_t{0}; }, Code::kBadData, "\"a\""},
      {"the same id twice", [](Json& j) { j["model"]["vocab"]["a"] = 300; }, Code::kBadData, "300"},
      {"an added token's id elsewhere", [](Json& j) { j["added_tokens"][0]["id"] = 5; }, Code::kBadData, "endoftext"},
      {"added tokens no array", [](Json& j) { j["added_tokens"] = 1; }, Code::kBadData, "added_tokens"},
      {"an added token no object", [](Json& j) { j["added_tokens"][0] = 1; }, Code::kBadData, "content"},
      {"merges no array", [](Json& j) { j["model"]["merges"] = nullptr; }, Code::kBadData, "merges"},
      {"a merge of three", [](Json& j) { j["model"]["merges"][3] = "a b c"; }, Code::kBadData, "a b c"},
      {"a merge of numbers", [](Json& j) { j["model"]["merges"][3] = {1, 2}; }, Code::kBadData, "[1,2]"},
      {"an absent half", [](Json& j) { j["model"]["merges"][3] = "a absent"; }, Code::kBadData, "absent"},
      {"an absent result", [](Json& j) { j["model"]["merges"][3] = "q q"; }, Code::kBadData, "\"qq\""},
      {"unk_token absent", [](Json& j) { j["model"]["unk_token"] = "<no>"; }, Code::kBadData, "<no>"},
      {"dropout of another type", [](Json& j) { j["model"]["dropout"] = "x"; }, Code::kBadData, "dropout"},
  };
  expect_errors(cases);
  for (const std::string text : {"", "{", "\"a\"", "\xff", "null", "{\"model\": 1}"})
    EXPECT_THROW(Tokenizer::from_json(text, "spoiled.json"), Error) << text;
  EXPECT_THROW(Tokenizer::from_json(std::string(100000, '['), "spoiled.json"), Error);
}

TEST(Tokenizer, WhatIsNotSupportedIsNamed) {
  const Spoiled cases[] = {
      {"a model", [](Json& j) { j["model"]["type"] = "WordPiece"; }, Code::kUnsupported, "WordPiece"},
      {"Unigram of bytes", [](Json& j) { j["model"]["type"] = "Unigram"; }, Code::kUnsupported, "Unigram"},
      {"byte_fallback for bytes without a token",
       [](Json& j) { j["model"] = {{"vocab", {{"a", 9}}}, {"merges", Json::array()}, {"byte_fallback", true}}; },
       Code::kUnsupported, "byte_fallback"},
      {"dropout", [](Json& j) { j["model"]["dropout"] = 0.1; }, Code::kUnsupported, "dropout"},
      {"a suffix", [](Json& j) { j["model"]["end_of_word_suffix"] = "</w>"; }, Code::kUnsupported, "end_of_word"},
      {"a normalizer", [](Json& j) { j["normalizer"] = {{"type", "Nope"}}; }, Code::kUnsupported, "Nope"},
      {"a Replace without pattern",
       [](Json& j) { j["normalizer"] = {{"type", "Replace"}}; }, Code::kUnsupported, "null"},
      {"a Replace without content",
       [](Json& j) { j["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", "a"}}}}; }, Code::kBadData,
       "content"},
      {"a regex that does not compile",
       [](Json& j) { j["normalizer"] = {{"type", "Replace"}, {"pattern", {{"Regex", "("}}}, {"content", ""}}; },
       Code::kUnsupported, "("},
      {"a pre-tokenizer", [](Json& j) { j["pre_tokenizer"] = {{"type", "Nope"}}; }, Code::kUnsupported, "Nope"},
      {"Unigram with an object",
       [](Json& j) {
         j["model"]["type"] = "Unigram";
         j["pre_tokenizer"] = nullptr;
       },
       Code::kBadData, "vocab"},
      {"Unigram with its unknown token outside",
       [](Json& j) {
         const Json pieces = Json::array({Json::array({"<|endoftext|>", 0.0}), Json::array({"a", -1.0})});
         j["model"] = {{"type", "Unigram"}, {"vocab", pieces}, {"unk_id", 2}};
         j["pre_tokenizer"] = nullptr;
       },
       Code::kBadData, "unk_id"},
      {"a charsmap that is no base64",
       [](Json& j) { j["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", "*"}}; }, Code::kBadData,
       "base64"},
      {"a charsmap whose trie does not fit",
       [](Json& j) { j["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", "CAAAAAAA"}}; },
       Code::kBadData, "trie of 8"},
      {"a mark of two characters",
       [](Json& j) { j["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "ab"}}; }, Code::kBadData, "\"ab\""},
      {"a behavior",
       [](Json& j) {
         j["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"String", "a"}}}, {"behavior", "Nope"}};
       },
       Code::kUnsupported, "Nope"},
      {"a negative strip", [](Json& j) { j["decoder"] = {{"type", "Strip"}, {"content", "a"}, {"start", -1}}; },
       Code::kBadData, "start"},
      {"pre_tokenizer a string", [](Json& j) { j["pre_tokenizer"] = "x"; }, Code::kBadData, "pre_tokenizer"},
      {"a decoder", [](Json& j) { j["decoder"] = {{"type", "WordPiece"}}; }, Code::kUnsupported, "WordPiece"},
      {"a post-processor", [](Json& j) { j["post_processor"] = {{"type", "Nope"}}; }, Code::kUnsupported, "Nope"},
      {"a template without text",
       [](Json& j) { j["post_processor"] = {{"type", "TemplateProcessing"}, {"single", Json::array()}}; },
       Code::kUnsupported, "template"},
      {"a template of the absent",
       [](Json& j) {
         j["post_processor"] = {{"type", "TemplateProcessing"},
                                {"single", {{{"SpecialToken", {{"id", "<no>"}, {"type_id", 0}}}}}}};
       },
       Code::kBadData, "<no>"},
  };
  expect_errors(cases);
}

TEST(Tokenizer, UnusualFilesThatAreFine) {
  Json json = base_json("gpt2");
  json["model"]["vocab"]["a hole before"] = 5000;      // holes; spaces, which the byte alphabet cannot spell
  json["model"]["merges"].push_back("a b");            // written the old way
  json["model"]["vocab"]["ab"] = 4000;
  json["model"].erase("type");
  json.erase("decoder");
  const Tokenizer tokenizer = Tokenizer::from_json(json.dump(), "holes.json");
  EXPECT_EQ(tokenizer.vocab_size(), 5001);
  EXPECT_EQ(tokenizer.token_bytes(5000), "a hole before");
  EXPECT_EQ(tokenizer.token_bytes(4500), "");
  EXPECT_EQ(tokenizer.id_of("a hole before"), 5000);
  EXPECT_EQ(tokenizer.encode("ab"), std::vector<int32_t>{4000});

  // A byte without a token vanishes, as in the library, or becomes unk_token.
  json["model"]["vocab"].erase("q");
  Json merges = Json::array();
  json["model"]["merges"] = merges;
  EXPECT_EQ(Tokenizer::from_json(json.dump(), "no q").decode(
                Tokenizer::from_json(json.dump(), "no q").encode("aqqb")), "ab");
  json["model"]["unk_token"] = "<|endoftext|>";
  EXPECT_EQ(Tokenizer::from_json(json.dump(), "no q").encode("aqqb").size(), 4u);
  json["model"]["fuse_unk"] = true;
  EXPECT_EQ(Tokenizer::from_json(json.dump(), "no q").encode("aqqb").size(), 3u);
}

}  // namespace
}  // namespace espalier
