#include "text/extend_vocabulary.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json.h"
#include "base/json_value.h"

namespace espalier {
namespace {

Tokenizer golden(const std::string& name) {
  return Tokenizer::load(std::string(ESP_SOURCE_DIR) + "/tests/golden/tokenizer/" + name + ".json");
}

TEST(ExtendVocabulary, NewTokensAreTheLastAndTheOldOnesStay) {
  for (const char* name : {"gpt2", "llama3"}) {
    const Tokenizer old = golden(name);
    const std::vector<std::string> names = {"<act>", "</act>", "\"quoted\\\"", "大小"};
    const Tokenizer grown = with_added_tokens(old, names);
    ASSERT_EQ(grown.vocab_size(), old.vocab_size() + 4);
    for (int32_t id = 0; id < old.vocab_size(); ++id) {
      ASSERT_EQ(grown.token_bytes(id), old.token_bytes(id));
      ASSERT_EQ(grown.is_special(id), old.is_special(id));
    }
    std::vector<int32_t> expected = old.encode("Say ");
    for (size_t i = 0; i < names.size(); ++i) {
      const auto id = int32_t(old.vocab_size() + int64_t(i));
      EXPECT_EQ(grown.id_of(names[i]), id);
      EXPECT_TRUE(grown.is_special(id));
      EXPECT_EQ(grown.decode(std::vector{id}), names[i]);
      expected.push_back(id);
    }
    EXPECT_EQ(grown.encode("Say <act></act>\"quoted\\\"大小"), expected);
    EXPECT_EQ(grown.encode("Hello, world"), old.encode("Hello, world"));
    for (const auto& [a, b] : {std::pair{grown.bos(), old.bos()}, {grown.eos(), old.eos()}, {grown.pad(), old.pad()}})
      EXPECT_EQ(a, b);
    // What is written is read back, and may grow again.
    const Tokenizer read = Tokenizer::from_json(grown.to_json(), "again"),
                    again = with_added_tokens(read, std::vector<std::string>{"<x>"});
    EXPECT_EQ(again.id_of("<x>"), grown.vocab_size());
    EXPECT_EQ(again.id_of("<act>"), old.vocab_size());
  }
}

TEST(ExtendVocabulary, TheRestOfTheFileIsNotTouched) {
  const Tokenizer old = golden("gpt2");
  Json before = Json::parse(old.to_json()),
       after = Json::parse(with_added_tokens(old, std::vector<std::string>{"<act>"}).to_json());
  ASSERT_EQ(after.at("added_tokens").size(), before.at("added_tokens").size() + 1);
  EXPECT_EQ(after.at("added_tokens").back(),
            Json::parse(R"({"id": 700, "content": "<act>", "single_word": false, "lstrip": false, "rstrip": false,
                            "normalized": false, "special": true})"));
  after.at("added_tokens").erase(after.at("added_tokens").size() - 1);
  EXPECT_EQ(after, before);
}

TEST(ExtendVocabulary, FilesWithoutAddedTokensGetSome) {
  const std::string rest = R"("pre_tokenizer":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{"a":0,"}":1,"]\"":2},
                              "merges":[]}})";
  for (const std::string& head : {std::string("{"), std::string(R"({"added_tokens":[],)"),
                                  std::string(R"({ "version" : "1,{[0\"" , "added_tokens" : [ ] , )")}) {
    const Tokenizer old = Tokenizer::from_json(head + rest, "test");
    const Tokenizer grown = with_added_tokens(old, std::vector<std::string>{"<x>", "<y>"});
    EXPECT_EQ(grown.encode("<x>a<y>"), (std::vector<int32_t>{3, 0, 4})) << head;
  }
}

TEST(ExtendVocabulary, NamesThatCannotBeNewAreNamed) {
  const Tokenizer old = golden("gpt2");
  const auto refused = [&](std::vector<std::string> names, const std::string& part) {
    try {
      with_added_tokens(old, names);
      ADD_FAILURE() << "no error; expected " << part;
    } catch (const Error& e) {  // the edge: the error is what is tested
      EXPECT_EQ(e.code(), Code::kUsage);
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    }
  };
  const std::string end = old.token_text(*old.eos());
  refused({"<a>", end}, "'" + end + "' is token " + std::to_string(*old.eos()) + " of this tokenizer already");
  refused({""}, "one of the names is empty");
  refused({"<a>", "<b>", "<a>"}, "'<a>' is named twice");
  refused({"\xff"}, "no UTF-8");
  refused({std::string(2000, 'x')}, "2000 bytes");
  refused(std::vector<std::string>(70'000, "x"), "adding 70000 tokens");
}

}  // namespace
}  // namespace espalier
