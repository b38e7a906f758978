#include "engine/dry.h"

#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/rng.h"

namespace espalier {
namespace {

using Ids = std::vector<int32_t>;

Tokenizer golden_tokenizer() {
  return Tokenizer::load(std::string(ESP_SOURCE_DIR) + "/tests/golden/tokenizer/gpt2.json");
}

std::vector<float> penalties(const SamplerConfig& config, const Ids& context, size_t vocab,
                             const Tokenizer* tokenizer = nullptr) {
  std::vector<float> logits(vocab, 0);
  Dry(config, tokenizer).apply(logits, context);
  for (float& x : logits) x = 0 - x;
  return logits;
}

SamplerConfig config_of(int64_t allowed, int64_t range = 0) {
  return {.dry_multiplier = 0.5, .dry_base = 2, .dry_allowed_length = allowed, .dry_range = range,
          .dry_sequence_breakers = {}};
}

// By the definition, place by place.
std::vector<float> brute_force(const SamplerConfig& config, Ids context, size_t vocab) {
  if (config.dry_range > 0 && int64_t(context.size()) > config.dry_range)
    context.erase(context.begin(), context.end() - config.dry_range);
  std::map<int32_t, int64_t> longest;
  for (size_t end = 1; end < context.size(); ++end) {  // a repetition of the last tokens ends before `end`
    int64_t length = 0;
    while (length < int64_t(end) && context[end - 1 - size_t(length)] == context[context.size() - 1 - size_t(length)])
      ++length;
    if (length >= config.dry_allowed_length) longest[context[end]] = std::max(longest[context[end]], length);
  }
  std::vector<float> result(vocab, 0);
  for (const auto& [id, length] : longest)
    result[size_t(id)] =
        float(config.dry_multiplier * std::pow(config.dry_base, double(length - config.dry_allowed_length)));
  return result;
}

TEST(Dry, EqualsItsDefinitionOnRandomContexts) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Rng rng(seed, Purpose::kTest);
    const size_t vocab = 2 + seed % 4;
    Ids context(seed % 60);
    for (size_t i = 0; i < context.size(); ++i) context[i] = int32_t(rng.below(i, vocab));
    for (const int64_t allowed : {1, 2, 5})
      for (const int64_t range : {0, 7, 30}) {
        const SamplerConfig config = config_of(allowed, range);
        EXPECT_EQ(penalties(config, context, vocab), brute_force(config, context, vocab)) << seed;
      }
  }
}

TEST(Dry, GrowsWithTheLengthOfTheRepetition) {
  // The last two stood at the start, where 3 followed: 0.5 * 2^0. With 9 before both, three did: 0.5 * 2^1.
  EXPECT_EQ(penalties(config_of(2), {1, 2, 3, 1, 2}, 4), (std::vector<float>{0, 0, 0, 0.5f}));
  EXPECT_EQ(penalties(config_of(2), {9, 1, 2, 3, 9, 1, 2}, 10)[3], 1);
  EXPECT_EQ(penalties(config_of(3), {1, 2, 3, 1, 2}, 4), std::vector<float>(4, 0));
}

TEST(Dry, ALongRepetitionStaysFinite) {
  const std::vector<float> p = penalties(config_of(1), Ids(5000, 1), 2);
  EXPECT_GE(p[1], 1e29f);
  EXPECT_TRUE(std::isfinite(p[1]));
}

TEST(Dry, BreakersEndARepetitionAlsoAcrossTokens) {
  const Tokenizer tokenizer = golden_tokenizer();
  const auto vocab = size_t(tokenizer.vocab_size());
  const auto total = [&](const std::string& text, std::vector<std::string> breakers) {
    SamplerConfig config = config_of(2);
    config.dry_sequence_breakers = std::move(breakers);
    double sum = 0;
    for (const float p : penalties(config, tokenizer.encode(text), vocab, &tokenizer)) sum += double(p);
    return sum;
  };
  const std::string text = "q;x#z q;x#";
  EXPECT_GT(total(text, {}), 0);
  EXPECT_EQ(total(text, {}), total(text, {"never there"}));
  EXPECT_LT(total(text, {";x"}), total(text, {}));   // the repetition is what stands behind
  EXPECT_EQ(total(text, {"x#"}), 0);                 // nothing does
}

TEST(Dry, RefusesBreakersThatItCannotRead) {
  SamplerConfig config = config_of(2);
  config.dry_sequence_breakers = {"\n"};
  EXPECT_THROW(Dry(config, nullptr), Error);
  config.dry_multiplier = 0;
  EXPECT_NO_THROW(Dry(config, nullptr));
  const Tokenizer tokenizer = golden_tokenizer();
  config.dry_multiplier = 1;
  config.dry_sequence_breakers = {""};
  EXPECT_THROW(Dry(config, &tokenizer), Error);
}

}  // namespace
}  // namespace espalier
