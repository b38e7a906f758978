#include "text/bpe_trainer.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json.h"
#include "base/json_value.h"

namespace espalier {
namespace {

const std::string kFolder = std::string(ESP_SOURCE_DIR) + "/tests/golden/tokenizer/";

std::vector<std::string> golden_documents() {
  return read_json_file(kFolder + "cases.json")["documents"].get<std::vector<std::string>>();
}

Tokenizer train_on(const std::vector<std::string>& documents, const BpeTrainOptions& options, int threads = 1) {
  ThreadPool pool(threads);
  Context context{pool, silent_log()};
  size_t i = 0;
  return train_bpe(context, silent_progress(), options, [&](std::string& document) {
    if (i == documents.size()) return false;
    document = documents[i++];
    return true;
  });
}

/// Merges as pairs whichever way they are written.
std::vector<std::pair<std::string, std::string>> merges_of(const Json& json) {
  return json["model"]["merges"].get<std::vector<std::pair<std::string, std::string>>>();
}

TEST(BpeTrainer, VocabularyAndMergesEqualTheLibrarys) {
  BpeTrainOptions options{.vocab_size = 700};
  for (const char* pattern : {"gpt2", "llama3"}) {
    options.pattern = pattern;
    if (options.pattern == "llama3") options.special_tokens = {"<|begin_of_text|>", "<|end_of_text|>", "<|eot|>"};
    const Json ours = parse_json(train_on(golden_documents(), options).to_json(), "ours");
    const Json library = read_json_file(kFolder + pattern + ".json");
    EXPECT_EQ(ours["model"]["vocab"], library["model"]["vocab"]) << pattern;
    EXPECT_EQ(merges_of(ours), merges_of(library)) << pattern;
    EXPECT_EQ(ours["pre_tokenizer"], library["pre_tokenizer"]);
    EXPECT_EQ(ours["added_tokens"], library["added_tokens"]);
  }
}

TEST(BpeTrainer, ThreadsAndOrderOfDocumentsChangeNothing) {
  std::vector<std::string> documents = golden_documents();
  const BpeTrainOptions options{.vocab_size = 500, .pattern = "llama3"};
  const std::string json = train_on(documents, options).to_json();
  std::reverse(documents.begin(), documents.end());
  EXPECT_EQ(train_on(documents, options, 3).to_json(), json);
}

TEST(BpeTrainer, StopsWhereTheTextGivesNoMore) {
  // "aaab" twice: aa, then aaa or ab; pairs that occur once are left.
  const Tokenizer tokenizer = train_on({"aaab", "aaab"}, {.vocab_size = 1000});
  EXPECT_EQ(tokenizer.encode("aaab").size(), 1u);
  EXPECT_EQ(tokenizer.vocab_size(), 257 + 3);
  EXPECT_EQ(train_on({}, {.vocab_size = 1000}).vocab_size(), 257);
  EXPECT_EQ(train_on({"ab"}, {.vocab_size = 1000, .min_frequency = 1}).vocab_size(), 258);
}

TEST(BpeTrainer, IllFormedTextIsReadAsReplacementCharacters) {
  EXPECT_EQ(train_on({"\xff\xff\xff", "x"}, {.vocab_size = 259}).to_json(),
            train_on({"\uFFFD\uFFFD\uFFFD", "x"}, {.vocab_size = 259}).to_json());
}

TEST(BpeTrainer, BadOptionsAreUsageErrors) {
  for (const BpeTrainOptions& options :
       {BpeTrainOptions{.vocab_size = 256}, BpeTrainOptions{.vocab_size = int64_t{1} << 40},
        BpeTrainOptions{.pattern = "gpt5"}, BpeTrainOptions{.special_tokens = {""}},
        BpeTrainOptions{.special_tokens = {"\xff"}}}) {
    try {
      train_on({"text"}, options);
      ADD_FAILURE() << "trained";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::kUsage) << e.what();
    }
  }
}

TEST(PieceCounter, CountsAndAddsUp) {
  PieceCounter a, b;
  for (int i = 0; i < 20000; ++i) a.add(std::to_string(i % 7000));
  b.add("5", 10);
  b.add("new");
  a.add(b);
  EXPECT_EQ(a.size(), 7001u);
  uint64_t total = 0;
  a.for_each([&](std::string_view piece, uint64_t count) {
    total += count;
    if (piece == "5") {
      EXPECT_EQ(count, 13u);
    }
  });
  EXPECT_EQ(total, 20011u);
}

}  // namespace
}  // namespace espalier
