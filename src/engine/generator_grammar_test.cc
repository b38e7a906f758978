// Generation under a grammar: whatever the model says, the text is one of the grammar's.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json.h"
#include "base/json_value.h"
#include "engine/generator.h"
#include "engine/model_drafter.h"
#include "engine/prompt.h"
#include "models/golden_model.h"
#include "models/init.h"
#include "text/gbnf.h"
#include "text/json_schema.h"

namespace espalier {
namespace {

/// A random model that speaks the golden tokenizer's 700 tokens and 20 that are padding. Token `eos` ends texts.
struct Babbler {
  Tokenizer tokenizer = Tokenizer::load(std::string(ESP_SOURCE_DIR) + "/tests/golden/tokenizer/gpt2.json");
  std::shared_ptr<const TokenTrie> trie = std::make_shared<TokenTrie>(tokenizer);
  GoldenModel g{"llama2", choose_isa()};
  std::unique_ptr<Decoder> model;

  Babbler() {
    ArchSpec spec = g.model->spec();
    spec.vocab = tokenizer.vocab_size() + 20;
    spec.positions = 512;
    spec.bos = std::nullopt;
    spec.eos = tokenizer.eos();
    model = std::make_unique<Decoder>(spec, one_process_mesh(), DType::kF32, true);
    initialise(g.ctx, *model, 3, 0.3);
  }
  GenerateRequest request(int64_t seed, const std::shared_ptr<const Grammar>& grammar) const {
    return {.prompt = encode_prompt(tokenizer, "Once"), .max_tokens = 400,
            .sampler = {.temperature = 1, .top_p = 1, .seed = seed},
            .grammar = grammar ? std::make_shared<TokenGrammar>(grammar, trie) : nullptr};
  }
};

constexpr const char* kSchema = R"({"type": "object", "properties": {
  "name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0, "maximum": 130},
  "tags": {"type": "array", "items": {"enum": ["red", "é\n", "blue"]}, "maxItems": 3},
  "on": {"type": "boolean"}}, "required": ["name", "age", "tags"]})";

TEST(GeneratorGrammar, EveryTextIsJsonOfTheSchema) {
  Babbler babbler;
  Generator generator(babbler.g.ctx, *babbler.model, &babbler.tokenizer);
  std::vector<GenerateRequest> requests;
  const auto grammar = json_schema_grammar(kSchema, "schema");
  for (int64_t seed = 0; seed < 24; ++seed) requests.push_back(babbler.request(seed, grammar));
  requests[3].sampler.temperature = 0;
  requests[4].sampler = {.temperature = 2, .top_k = 3, .typical_p = 0.5, .repetition_penalty = 1.3};
  requests[5].sampler = {.temperature = 1, .mirostat = 2};
  for (const GenerateResult& r : generator.generate(requests)) {
    EXPECT_EQ(r.finish_reason, FinishReason::kStop) << "nothing may follow the last brace: " << r.text;
    const OrderedJson value = OrderedJson::parse(r.text, nullptr, false);
    ASSERT_TRUE(value.is_object()) << r.text;
    EXPECT_TRUE(value["name"].is_string());
    EXPECT_TRUE(value["age"].is_number_integer() && value["age"] >= 0 && value["age"] <= 130) << r.text;
    EXPECT_LE(value["tags"].size(), 3u);
    for (const OrderedJson& tag : value["tags"]) EXPECT_TRUE(tag == "red" || tag == "é\n" || tag == "blue") << r.text;
    for (const auto& [name, x] : value.items())
      EXPECT_TRUE(name == "name" || name == "age" || name == "tags" || (name == "on" && x.is_boolean())) << r.text;
  }
}

TEST(GeneratorGrammar, EosIsDrawnOnlyWhereTheTextMayEnd) {
  Babbler babbler;
  Generator generator(babbler.g.ctx, *babbler.model, &babbler.tokenizer);
  const auto grammar = parse_gbnf("root ::= (\"ab\" | \"cd\")+", "test");
  int ended = 0;
  for (int64_t seed = 0; seed < 60; ++seed) {
    GenerateRequest request = babbler.request(seed, grammar);
    request.max_tokens = 8;
    const GenerateResult r = generator.generate(request);
    ended += r.finish_reason == FinishReason::kEos;
    EXPECT_TRUE(r.finish_reason == FinishReason::kEos || r.finish_reason == FinishReason::kLength);
    EXPECT_TRUE(r.finish_reason != FinishReason::kEos || (r.text.size() % 2 == 0 && !r.text.empty())) << r.text;
    for (size_t i = 0; i < r.text.size(); i += 2) {
      const std::string pair = r.text.substr(i, 2);
      EXPECT_TRUE(std::string("ab").starts_with(pair) || std::string("cd").starts_with(pair)) << r.text;
    }
  }
  EXPECT_GT(ended, 0);
  GenerateRequest request = babbler.request(1, grammar);
  request.ignore_eos = true;
  request.max_tokens = 30;
  EXPECT_EQ(generator.generate(request).finish_reason, FinishReason::kLength);
}

TEST(GeneratorGrammar, OthersInTheBatchAreFreeAndTheSame) {
  Babbler babbler;
  GenerateRequest free = babbler.request(7, parse_gbnf("root ::= \"x\"*", "test"));
  free.grammar = nullptr;
  free.max_tokens = 20;
  const auto alone = Generator(babbler.g.ctx, *babbler.model, &babbler.tokenizer).generate(free);
  const GenerateRequest bound = babbler.request(8, json_schema_grammar(kSchema, "schema"));
  const auto bound_alone = Generator(babbler.g.ctx, *babbler.model, &babbler.tokenizer).generate(bound);
  Generator generator(babbler.g.ctx, *babbler.model, &babbler.tokenizer);
  const auto together = generator.generate(std::vector<GenerateRequest>{free, bound, bound});
  EXPECT_EQ(together[0].ids, alone.ids);
  EXPECT_EQ(together[1].ids, bound_alone.ids);
  EXPECT_EQ(together[2].ids, bound_alone.ids);
}

// Guesses know nothing of the grammar; those against it are never right.
TEST(GeneratorGrammar, SpeculationKeepsTheText) {
  Babbler babbler;
  const auto grammar = json_schema_grammar(kSchema, "schema");
  ModelDrafter drafter(babbler.g.ctx, *babbler.model, babbler.model->spec().vocab,
                       {.width = 3, .children = 4, .most_steps = 4});
  Generator guided(babbler.g.ctx, *babbler.model, &babbler.tokenizer,
                   {.speculation = {.drafter = &drafter, .most = 7, .adaptive = false}});
  for (int64_t seed = 0; seed < 6; ++seed) {
    GenerateRequest request = babbler.request(seed, grammar);
    if (seed == 0) request.sampler.temperature = 0;
    const GenerateResult plain = Generator(babbler.g.ctx, *babbler.model, &babbler.tokenizer).generate(request);
    const GenerateResult result = guided.generate(request);
    EXPECT_EQ(result.ids, plain.ids);
    EXPECT_EQ(result.text, plain.text);
    EXPECT_EQ(result.finish_reason, plain.finish_reason);
  }
}

TEST(GeneratorGrammar, WhereNothingCanBeSpelledTheRequestEndsAlone) {
  Babbler babbler;
  const std::vector<std::string_view> letters = {"a"};
  GenerateRequest request = babbler.request(1, parse_gbnf("root ::= \"ab\"", "test"));
  request.grammar = std::make_shared<TokenGrammar>(parse_gbnf("root ::= \"ab\"", "test"),
                                                   std::make_shared<TokenTrie>(letters));
  request.ignore_eos = true;  // id 0, the letter, ends texts of this model elsewhere
  Generator generator(babbler.g.ctx, *babbler.model, nullptr);
  GenerateRequest other = request;
  other.grammar = nullptr;
  other.max_tokens = 3;
  const auto results = generator.generate(std::vector<GenerateRequest>{request, other});
  EXPECT_EQ(results[0].finish_reason, FinishReason::kGrammar);
  EXPECT_EQ(results[0].ids, std::vector<int32_t>{0});
  EXPECT_EQ(results[1].ids.size(), 3u);
}

// The others of the pass must not suffer from a request that forbids everything.
TEST(GeneratorGrammar, ARequestThatForbidsAllTokensEndsAlone) {
  Babbler babbler;
  GenerateRequest request = babbler.request(1, nullptr);
  request.max_tokens = 3;
  request.ignore_eos = true;
  GenerateRequest mute = request;
  for (int64_t id = 0; id < babbler.model->spec().vocab; ++id)
    mute.sampler.logit_bias.push_back(std::to_string(id) + "=-inf");
  const auto results = Generator(babbler.g.ctx, *babbler.model, &babbler.tokenizer)
                           .generate(std::vector<GenerateRequest>{mute, request});
  EXPECT_EQ(results[0].finish_reason, FinishReason::kGrammar);
  EXPECT_TRUE(results[0].ids.empty());
  EXPECT_EQ(results[1].ids.size(), 3u);
}

TEST(GeneratorGrammar, LogprobsAreOfTheModelNotOfTheGrammar) {
  Babbler babbler;
  GenerateRequest request = babbler.request(2, parse_gbnf("root ::= [xyz]{5}", "test"));
  std::vector<std::vector<float>> logits;
  std::vector<Logprobs> seen;
  request.on_logits = [&](std::span<const float> x) { logits.emplace_back(x.begin(), x.end()); };
  request.on_logprobs = [&](const Logprobs& l) { seen.push_back(l); };
  request.top_logprobs = 4;
  const GenerateResult r = Generator(babbler.g.ctx, *babbler.model, &babbler.tokenizer).generate(request);
  ASSERT_EQ(seen.size(), r.ids.size());
  for (size_t i = 0; i < seen.size(); ++i) {
    EXPECT_EQ(seen[i].chosen.id, r.ids[i]);
    ASSERT_EQ(seen[i].top.size(), 4u);
    EXPECT_EQ(seen[i].top[0].id, std::max_element(logits[i].begin(), logits[i].end()) - logits[i].begin());
    double total = 0;
    for (const float x : logits[i]) total += std::exp(double(x));
    EXPECT_NEAR(seen[i].chosen.logprob, double(logits[i][size_t(r.ids[i])]) - std::log(total), 1e-5);
  }
  request.top_logprobs = 21;
  EXPECT_THROW(Generator(babbler.g.ctx, *babbler.model, &babbler.tokenizer).generate(request), Error);
}

}  // namespace
}  // namespace espalier
