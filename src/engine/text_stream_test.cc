#include "engine/text_stream.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/rng.h"
#include "engine/prompt.h"
#include "text/utf8.h"

namespace espalier {
namespace {

Tokenizer golden_tokenizer(const std::string& name) {
  return Tokenizer::load(std::string(ESP_SOURCE_DIR) + "/tests/golden/tokenizer/" + name + ".json");
}

std::string run(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, const std::vector<std::string>& stop,
                std::vector<std::string>* pieces = nullptr) {
  TextStream stream(tokenizer, stop);
  std::string text;
  for (size_t i = 0; i <= ids.size(); ++i) {
    const std::string piece = i < ids.size() ? stream.push(ids[i]) : stream.finish();
    text += piece;
    if (pieces) pieces->push_back(piece);
  }
  return text;
}

TEST(TextStream, HoldsBackWhatAStopStringMayTake) {
  const Tokenizer t = golden_tokenizer("gpt2");
  TextStream stream(t, {"\n\n##", "END"});
  const auto push = [&](const std::string& text) {
    std::string out;
    for (const int32_t id : t.encode(text)) out += stream.push(id);
    return out;
  };
  EXPECT_EQ(push("a"), "a");
  EXPECT_EQ(push("b\n"), "b");
  EXPECT_EQ(push("\n"), "");
  EXPECT_EQ(push("\n"), "\n");  // "\n\n\n": the first newline can no longer be part of it
  EXPECT_EQ(push("c"), "\n\nc");
  EXPECT_EQ(push("E"), "");
  EXPECT_EQ(push("N"), "");
  EXPECT_FALSE(stream.stopped());
  EXPECT_EQ(push("D and more"), "");
  EXPECT_TRUE(stream.stopped());
  EXPECT_EQ(stream.finish(), "");
}

TEST(TextStream, WithoutStopStringsItIsTheDecodedText) {
  const Tokenizer t = golden_tokenizer("gpt2");
  const std::string text = "naïve 日本語 🙂\n  tabs\tand spaces";
  EXPECT_EQ(run(t, t.encode(text), {}), text);
}

// The definition: let the text grow token by token; once it holds a stop string, cut it where the first one starts.
// Pieces never end inside a character.
TEST(TextStream, RandomTokensAndStopStringsEqualTheDefinition) {
  const Tokenizer t = golden_tokenizer("gpt2");
  const Rng rng(11, Purpose::kTest);
  uint64_t draw = 0;
  int stopped = 0;
  for (int round = 0; round < 400; ++round) {
    // Few different tokens, bytes of characters among them, so that stop strings do occur.
    std::vector<int32_t> words = t.encode("aab é 🙂 ba"), ids;
    for (int i = 0; i < 40; ++i) ids.push_back(words[rng.below(draw++, words.size())]);
    const std::string whole = t.decode(ids, true);
    std::vector<std::string> stop = {"zz"};
    for (int i = 0; i < 2; ++i) {
      const size_t from = rng.below(draw++, whole.size());
      stop.push_back(whole.substr(from, 1 + rng.below(draw++, 5)));
    }
    std::vector<std::string> grown, pieces;
    run(t, ids, {}, &grown);
    size_t cut = whole.size(), size = 0;
    for (const std::string& part : grown) {
      size += part.size();
      for (const std::string& s : stop) cut = std::min(cut, std::string_view(whole).substr(0, size).find(s));
      if (cut < whole.size()) break;
    }
    EXPECT_EQ(run(t, ids, stop, &pieces), whole.substr(0, cut));
    stopped += cut < whole.size();
    std::string so_far;
    for (const std::string& piece : pieces) {
      so_far += piece;
      // A stop string that starts inside a character may cut one; text that it does not touch is whole.
      if (so_far.size() < cut && is_utf8(stop[1]) && is_utf8(stop[2])) {
        EXPECT_TRUE(is_utf8(piece)) << piece;
      }
    }
  }
  EXPECT_GT(stopped, 100);
}

TEST(TextStream, AnEmptyStopStringIsRefused) {
  EXPECT_THROW(TextStream(golden_tokenizer("gpt2"), {""}), Error);
}

TEST(Prompt, StartsAsTheTokenizerSays) {
  const Tokenizer llama = golden_tokenizer("llama3"), gpt2 = golden_tokenizer("gpt2");
  const std::vector<int32_t> ids = encode_prompt(llama, "hello");
  EXPECT_EQ(ids[0], *llama.bos());
  EXPECT_EQ(llama.decode(ids, true), "hello");
  EXPECT_EQ(encode_prompt(llama, ""), std::vector<int32_t>{*llama.bos()});
  EXPECT_EQ(leading_bos(gpt2), std::nullopt);
  EXPECT_EQ(encode_prompt(gpt2, "hello"), gpt2.encode("hello"));
  EXPECT_EQ(encode_prompt(gpt2, ""), std::vector<int32_t>{*gpt2.eos()});
}

}  // namespace
}  // namespace espalier
