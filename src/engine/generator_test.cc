#include "engine/generator.h"

#include <cmath>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json.h"
#include "base/json_value.h"
#include "engine/prompt.h"
#include "models/golden_model.h"
#include "models/tiny_model.h"
#include "models/init.h"
#include "text/utf8.h"

namespace espalier {
namespace {

/// What a request gave, with the logits before each draw.
struct Recorded {
  GenerateResult result;
  std::vector<std::vector<float>> logits;
};

GenerateRequest recorded(GenerateRequest request, std::vector<std::vector<float>>& logits) {
  request.on_logits = [&logits](std::span<const float> row) { logits.emplace_back(row.begin(), row.end()); };
  return request;
}

Recorded alone(Context& ctx, Decoder& model, const GenerateRequest& request, const GeneratorOptions& options = {}) {
  Recorded run;
  Generator generator(ctx, model, nullptr, options);
  run.result = generator.generate(recorded(request, run.logits));
  return run;
}

SamplerConfig greedy() { return {.temperature = 0}; }

// Requests of many lengths, samplers and seeds; each is its own.
GenerateRequest random_request(uint64_t number, const ArchSpec& spec) {
  const Rng rng(number, Purpose::kTest, 17);
  GenerateRequest r;
  r.prompt.resize(1 + rng.below(0, 12));
  for (size_t i = 0; i < r.prompt.size(); ++i) r.prompt[i] = int32_t(rng.below(i + 1, uint64_t(spec.vocab)));
  r.max_tokens = 1 + int64_t(rng.below(100, 15));
  r.sampler = {.temperature = 1.5, .top_p = 0.9, .repetition_penalty = number % 2 ? 1.1 : 1.0, .seed = int64_t(number)};
  r.id = number * 7;
  r.ignore_eos = true;
  return r;
}

struct Case {
  std::string name;
  Isa isa;
};
class Generation : public testing::TestWithParam<Case> {};
std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const std::string& name : golden_names())
    for (const Isa isa : isas_here()) cases.push_back({name, isa});
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Models, Generation, testing::ValuesIn(all_cases()),
                         [](const auto& test) { return test.param.name + "_" + isa_name(test.param.isa); });

TEST_P(Generation, GreedyIdsEqualTransformers) {
  GoldenModel g(GetParam().name, GetParam().isa);
  const Json golden = read_json_file(g.folder + "/generation.json");
  for (const Json& c : golden.at("cases")) {
    GenerateRequest request{.prompt = c.at("prompt"), .max_tokens = 20, .sampler = greedy(), .ignore_eos = true};
    const Recorded run = alone(g.ctx, *g.model, request);
    EXPECT_EQ(run.result.ids, c.at("greedy").get<std::vector<int32_t>>());
    EXPECT_EQ(run.result.prompt_tokens, int64_t(request.prompt.size()));
  }
}

std::vector<float> full_forward(GoldenModel& g, const std::vector<int32_t>& ids) {
  std::vector<int32_t> positions, first_key;
  for (int64_t t = 0; t < int64_t(ids.size()); ++t) {
    positions.push_back(int32_t(t));
    first_key.push_back(0);
  }
  BufferPool pool;
  Tape tape(g.ctx, pool, DType::kF32, TapeMode::kEval);
  std::vector<float> logits(ids.size() * size_t(g.model->spec().vocab));
  const Batch batch{1, int64_t(ids.size()), ids.data(), positions.data(), first_key.data()};
  g.model->logits(tape, g.model->hidden(tape, batch), mat(logits.data(), batch.rows, g.model->spec().vocab));
  return logits;
}

// Both sides compute the same sums in f32, in other orders. A sum of n terms errs by about sqrt(n) 2^-24 of its size;
// n is at most 40 here, each layer has six products on the way to the logits, and errors of the two sides add up as
// independent ones: sqrt(2 * (6 * 2 + 1) * 40) 2^-24 = 2e-6. Softmaxes, norms and activations may amplify what they
// get; in these steep models eight times is ample.
constexpr double kCachedBound = 1.6e-5;

TEST_P(Generation, CachedLogitsEqualTheTrainingForward) {
  GoldenModel g(GetParam().name, GetParam().isa);
  const int64_t vocab = g.model->spec().vocab;
  for (const size_t prompt : {1, 5, 11}) {
    GenerateRequest request{.prompt = {g.ids.begin(), g.ids.begin() + std::ptrdiff_t(prompt)}, .max_tokens = 18,
                            .sampler = greedy(), .ignore_eos = true};
    const Recorded run = alone(g.ctx, *g.model, request, {.prefill_rows = 4});
    std::vector<int32_t> ids = request.prompt;
    ids.insert(ids.end(), run.result.ids.begin(), run.result.ids.end());
    const std::vector<float> expected = full_forward(g, ids);
    ASSERT_EQ(run.logits.size(), 18u);
    for (size_t i = 0; i < run.logits.size(); ++i)
      EXPECT_LT(relative_error(run.logits[i].data(), expected.data() + (prompt - 1 + i) * size_t(vocab), vocab),
                kCachedBound) << i;
  }
}

// Products widen bf16 weights to f32, so they are those of an f32 model with the rounded weights.
TEST_P(Generation, Bf16WeightsGiveTheLogitsOfTheRoundedOnes) {
  GoldenModel half(GetParam().name, GetParam().isa, {.dtype = DType::kBF16}), rounded(GetParam().name, GetParam().isa);
  for (size_t i = 0; i < rounded.model->params().size(); ++i) {
    if (!half.model->params()[i].compute_copy) continue;
    float* w = rounded.model->params()[i].master.as<float>();
    for (int64_t j = 0; j < rounded.model->params()[i].size(); ++j) w[j] = float(bf16(w[j]));
  }
  const GenerateRequest request = random_request(3, half.model->spec());
  const Recorded a = alone(half.ctx, *half.model, request), b = alone(rounded.ctx, *rounded.model, request);
  EXPECT_EQ(a.result.ids, b.result.ids);
  for (size_t i = 0; i < a.logits.size(); ++i)
    EXPECT_LT(relative_error(a.logits[i].data(), b.logits[i].data(), int64_t(a.logits[i].size())), kCachedBound);
}

TEST_P(Generation, CuttingThePromptChangesNoBit) {
  GoldenModel g(GetParam().name, GetParam().isa);
  GenerateRequest request = random_request(3, g.model->spec());
  request.prompt.assign(g.ids.begin(), g.ids.begin() + 21);
  const Recorded whole = alone(g.ctx, *g.model, request);
  for (const int64_t rows : {1, 2, 5, 20}) {
    const Recorded cut = alone(g.ctx, *g.model, request, {.prefill_rows = rows});
    EXPECT_EQ(cut.logits, whole.logits) << rows;
    EXPECT_EQ(cut.result.ids, whole.result.ids);
  }
}

// A conversation: each prompt is the last one with its answer and a question behind it.
TEST_P(Generation, WhatIsRememberedChangesNoBit) {
  GoldenModel g(GetParam().name, GetParam().isa);
  Generator generator(g.ctx, *g.model, nullptr, {.prefill_rows = 5, .remember = 1});
  GenerateRequest request = random_request(1, g.model->spec());
  request.max_tokens = 4;
  for (int turn = 0; turn < 3; ++turn) {
    Recorded run;
    run.result = generator.generate(recorded(request, run.logits));
    const Recorded fresh = alone(g.ctx, *g.model, request);
    EXPECT_EQ(run.result.ids, fresh.result.ids);
    EXPECT_EQ(run.logits, fresh.logits);
    // All but the last token drawn, which no pass has read.
    EXPECT_EQ(run.result.cached_tokens, turn == 0 ? 0 : run.result.prompt_tokens - 4);
    request.prompt.insert(request.prompt.end(), run.result.ids.begin(), run.result.ids.end());
    for (const int32_t id : {7, 8, 9}) request.prompt.push_back(id);
  }
  // Another beginning shares what it shares; the same prompt again is read from its last token on.
  request.prompt[2] ^= 1;
  EXPECT_EQ(generator.generate(request).cached_tokens, 2);
  EXPECT_EQ(generator.generate(request).cached_tokens, int64_t(request.prompt.size()) - 1);
  generator.forget();
  EXPECT_EQ(generator.generate(request).cached_tokens, 0);
}

TEST_P(Generation, ARequestAmongOthersGetsTheBitsItGetsAlone) {
  GoldenModel g(GetParam().name, GetParam().isa);
  const GenerateRequest request = random_request(1000, g.model->spec());
  const Recorded expected = alone(g.ctx, *g.model, request);
  for (uint64_t others = 1; others <= 7; ++others) {
    std::vector<std::vector<float>> logits;
    std::vector<GenerateRequest> requests;
    for (uint64_t i = 0; i < others; ++i) requests.push_back(random_request(10 * others + i, g.model->spec()));
    requests.insert(requests.begin() + std::ptrdiff_t(others / 2), recorded(request, logits));
    Generator generator(g.ctx, *g.model, nullptr, {.prefill_rows = 3});
    const auto results = generator.generate(std::move(requests));
    EXPECT_EQ(results[others / 2].ids, expected.result.ids) << others;
    EXPECT_EQ(logits, expected.logits) << others;
  }
}

TEST(Generator, SequencesLeaveAndOthersTakeTheirPlace) {
  GoldenModel g("llama3", choose_isa());
  std::vector<GenerateRequest> requests;
  for (uint64_t i = 0; i < 9; ++i) requests.push_back(random_request(i, g.model->spec()));
  Generator generator(g.ctx, *g.model, nullptr, {.max_batch = 3, .prefill_rows = 4});
  const auto results = generator.generate(requests);
  ASSERT_EQ(results.size(), requests.size());
  for (size_t i = 0; i < results.size(); ++i)
    EXPECT_EQ(results[i].ids, alone(g.ctx, *g.model, requests[i]).result.ids) << i;
  EXPECT_FALSE(generator.step());
  EXPECT_FALSE(generator.take(0)) << "a result is handed out once";
}

TEST(Generator, ThreadsChangeNoBit) {
  GoldenModel g("llama2", choose_isa());
  const GenerateRequest request = random_request(5, g.model->spec());
  const Recorded expected = alone(g.ctx, *g.model, request);
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    Context ctx{pool, silent_log(), choose_isa()};
    EXPECT_EQ(alone(ctx, *g.model, request).logits, expected.logits);
  }
}

TEST(Generator, SeedsReplayAndRequestsDiffer) {
  GoldenModel g("llama2", choose_isa());
  GenerateRequest request{.prompt = {5, 6}, .max_tokens = 30, .sampler = {.temperature = 2, .top_p = 1, .seed = 4},
                          .ignore_eos = true};
  const auto first = alone(g.ctx, *g.model, request).result.ids;
  EXPECT_EQ(first, alone(g.ctx, *g.model, request).result.ids);
  request.id = 1;
  EXPECT_NE(first, alone(g.ctx, *g.model, request).result.ids);
  request.id = 0;
  request.sampler.seed = 5;
  EXPECT_NE(first, alone(g.ctx, *g.model, request).result.ids);
}

// bf16 keeps 8 bits: a key or value errs by up to 2^-9 of itself; the same counting as above with 2^-9 for 2^-24 only
// for the two sums of each layer's attention: sqrt(2 * 2) 2^-9 / sqrt(3), eight times amplified.
TEST(Generator, ABf16CacheStaysWithinItsBound) {
  GoldenModel g("llama3", choose_isa());
  GenerateRequest request{.prompt = {g.ids.begin(), g.ids.begin() + 16}, .max_tokens = 1, .sampler = greedy()};
  const Recorded exact = alone(g.ctx, *g.model, request), rounded =
      alone(g.ctx, *g.model, request, {.cache_type = CacheType::kBF16});
  const double error = relative_error(rounded.logits[0].data(), exact.logits[0].data(), g.model->spec().vocab);
  EXPECT_GT(error, 0);
  EXPECT_LT(error, 8 * 2 * 0x1p-9 / std::sqrt(3.0));
}

// q8 errs by up to half a scale, 1 / 254 of the largest of a block; numbers of a normal block of 32 reach about 2.1
// standard deviations, so that the root of the mean square error is 2.1 / 127 / sqrt(12) of theirs. Counted as above.
TEST(Generator, AnEightBitCacheStaysWithinItsBound) {
  ArchSpec spec = tiny_spec("llama");
  spec.head_size = 32;
  ThreadPool pool(2);
  Context ctx{pool, silent_log(), choose_isa(), {}};
  Decoder model(spec, one_process_mesh(), DType::kF32, true);
  initialise(ctx, model, 3, 0.2);
  GenerateRequest request{.prompt = {5, 9, 300, 41, 7, 650, 2, 77, 78, 79, 12}, .max_tokens = 8, .sampler = greedy(),
                          .ignore_eos = true};
  const Recorded exact = alone(ctx, model, request);
  const Recorded rounded = alone(ctx, model, request, {.cache_type = CacheType::kQ8});
  const double error = relative_error(rounded.logits[0].data(), exact.logits[0].data(), spec.vocab);
  EXPECT_GT(error, 0);
  EXPECT_LT(error, 8 * 2 * 2.1 / 127 / std::sqrt(12.0));
  // Beside others and behind a remembered prompt a request gets the same bits.
  Generator generator(ctx, model, nullptr, {.remember = 2, .cache_type = CacheType::kQ8});
  for (int i = 0; i < 2; ++i) {
    const auto results = generator.generate({request, {.prompt = {8, 9}, .max_tokens = 5}, request});
    EXPECT_EQ(results[0].ids, rounded.result.ids);
    EXPECT_EQ(results[2].ids, rounded.result.ids);
  }
  spec.head_size = 8;
  EXPECT_THROW(KvCache(spec, CacheType::kQ8), Error);
  EXPECT_THROW(parse_cache_type("q4"), Error);
}

TEST(Generator, EveryReasonToFinish) {
  GoldenModel g("gpt2", choose_isa());
  const GenerateRequest base{.prompt = {1, 2, 3}, .max_tokens = 10, .sampler = greedy(), .ignore_eos = true};
  const auto ids = alone(g.ctx, *g.model, base).result.ids;
  const auto finish = [&](const GenerateRequest& r) {
    const GenerateResult result = alone(g.ctx, *g.model, r).result;
    return fmt::format("{} {}", finish_reason_name(result.finish_reason), result.ids.size());
  };
  EXPECT_EQ(finish(base), "length 10");

  GenerateRequest r = base;
  r.stop_ids = {ids[4]};
  const auto first = size_t(std::find(ids.begin(), ids.end(), ids[4]) - ids.begin()) + 1;
  EXPECT_EQ(finish(r), fmt::format("stop {}", first));

  r = base;
  r.max_tokens = 1000;
  EXPECT_EQ(finish(r), "context 29");  // 32 positions, 3 of them the prompt's

  r = base;
  int calls = 0;
  r.on_token = [&](int32_t, std::string_view) { return ++calls < 3; };
  EXPECT_EQ(finish(r), "cancelled 3");
  EXPECT_EQ(calls, 3);
}

TEST(Generator, ACancelledRequestGivesWhatItHas) {
  GoldenModel g("llama3", choose_isa());
  Generator generator(g.ctx, *g.model, nullptr, {.max_batch = 1, .prefill_rows = 2, .remember = 2});
  const std::vector<int32_t> prompt = {3, 5, 7, 9, 11};
  const auto submit = [&] {
    return generator.submit({.prompt = prompt, .max_tokens = 9, .sampler = greedy(), .ignore_eos = true});
  };
  const size_t first = submit(), waiting = submit();
  generator.step();
  generator.cancel(first);
  generator.cancel(waiting);
  for (const size_t number : {first, waiting}) {
    const auto result = generator.take(number);
    ASSERT_TRUE(result);
    EXPECT_EQ(result->finish_reason, FinishReason::kCancelled);
    EXPECT_TRUE(result->ids.empty());
  }
  EXPECT_FALSE(generator.step());
  generator.cancel(first);  // finished: nothing to end
  EXPECT_FALSE(generator.take(first));
  const GenerateResult after = generator.generate({.prompt = prompt, .max_tokens = 9, .sampler = greedy()});
  EXPECT_EQ(after.cached_tokens, 2);  // what the first pass had read
}

TEST(Generator, TheModelsEosEndsAText) {
  ArchSpec spec = GoldenModel("llama2", choose_isa()).model->spec();
  ThreadPool pool(1);
  Context ctx{pool, silent_log(), choose_isa()};
  spec.eos = 2;
  Decoder zero(spec, one_process_mesh(), DType::kF32, false);  // every logit is 0: greedy says token 0 for ever
  GenerateRequest r{.prompt = {5}, .max_tokens = 4, .sampler = greedy()};
  EXPECT_EQ(alone(ctx, zero, r).result.finish_reason, FinishReason::kLength);
  spec.eos = 0;
  Decoder ending(spec, one_process_mesh(), DType::kF32, false);
  EXPECT_EQ(alone(ctx, ending, r).result.finish_reason, FinishReason::kEos);
  EXPECT_EQ(alone(ctx, ending, r).result.ids, std::vector<int32_t>{0});
  spec.eos = 2;
  spec.more_eos = {3, 0};
  Decoder several(spec, one_process_mesh(), DType::kF32, false);
  EXPECT_EQ(alone(ctx, several, r).result.ids, std::vector<int32_t>{0}) << "any of several ends it";
  r.ignore_eos = true;
  EXPECT_EQ(alone(ctx, ending, r).result.ids, (std::vector<int32_t>{0, 0, 0, 0}));
}

/// A random model that speaks the golden tokenizer's 700 tokens.
struct Speaker {
  Tokenizer tokenizer = Tokenizer::load(std::string(ESP_SOURCE_DIR) + "/tests/golden/tokenizer/gpt2.json");
  GoldenModel g{"llama2", choose_isa()};
  std::unique_ptr<Decoder> model;

  Speaker() {
    ArchSpec spec = g.model->spec();
    spec.vocab = tokenizer.vocab_size();
    spec.positions = 256;
    spec.bos = spec.eos = std::nullopt;
    model = std::make_unique<Decoder>(spec, one_process_mesh(), DType::kF32, true);
    initialise(g.ctx, *model, 3, 0.3);
  }
  GenerateRequest request(int64_t seed) const {
    return {.prompt = encode_prompt(tokenizer, "Once"), .max_tokens = 60,
            .sampler = {.temperature = 1, .top_p = 1, .seed = seed}, .ignore_eos = true};
  }
  GenerateResult run(const GenerateRequest& r) { return Generator(g.ctx, *model, &tokenizer).generate(r); }
};

TEST(Generator, StreamedPiecesAreWholeCharactersAndGiveTheText) {
  Speaker speaker;
  for (int64_t seed = 0; seed < 20; ++seed) {
    GenerateRequest r = speaker.request(seed);
    std::string streamed;
    std::vector<int32_t> ids;
    r.on_token = [&](int32_t id, std::string_view text) {
      EXPECT_TRUE(is_utf8(text));
      streamed += text;
      if (id >= 0) ids.push_back(id);
      return true;
    };
    const GenerateResult result = speaker.run(r);
    EXPECT_EQ(result.text, speaker.tokenizer.decode(result.ids, true));
    EXPECT_EQ(streamed, result.text);
    EXPECT_EQ(ids, result.ids);
  }
}

TEST(Generator, StopStringsAreFoundAcrossTokens) {
  Speaker speaker;
  const std::string whole = speaker.run(speaker.request(1)).text;
  int tried = 0;
  for (size_t from = 1; from + 9 < whole.size(); from += 3) {
    const std::string stop = whole.substr(from, 9);  // longer than a token of random text
    if (!is_utf8(stop)) continue;
    ++tried;
    GenerateRequest r = speaker.request(1);
    r.stop = {"never seen in it", stop};
    std::string streamed;
    r.on_token = [&](int32_t, std::string_view text) { return streamed += text, true; };
    const GenerateResult result = speaker.run(r);
    EXPECT_EQ(result.finish_reason, FinishReason::kStop);
    EXPECT_EQ(result.text, whole.substr(0, whole.find(stop)));
    EXPECT_EQ(streamed, result.text);
  }
  EXPECT_GT(tried, 10);
}

TEST(Generator, RefusesWhatItCannotServe) {
  GoldenModel g("gpt2", choose_isa());
  Generator generator(g.ctx, *g.model, nullptr);
  const auto refusal = [&](GenerateRequest r) -> std::string {
    try {
      generator.submit(std::move(r));
    } catch (const Error& e) {
      return e.what();
    }
    return "accepted";
  };
  EXPECT_NE(refusal({}).find("prompt is empty"), std::string::npos);
  EXPECT_NE(refusal({.prompt = {61}}).find("token 61 of the prompt is outside the model's vocabulary of 61"),
            std::string::npos);
  EXPECT_NE(refusal({.prompt = {-1}}).find("token -1"), std::string::npos);
  EXPECT_NE(refusal({.prompt = std::vector<int32_t>(32, 1)}).find("32 tokens and the model's context is 32"),
            std::string::npos);
  EXPECT_NE(refusal({.prompt = {1}, .max_tokens = 0}).find("max_tokens is 0"), std::string::npos);
  EXPECT_NE(refusal({.prompt = {1}, .stop = {"x"}}).find("need a tokenizer"), std::string::npos);
  EXPECT_NE(refusal({.prompt = {1}, .sampler = {.top_p = 2}}).find("top_p is 2"), std::string::npos);
  EXPECT_FALSE(generator.step()) << "nothing refused was queued";
}

// What is written behind a slide is what a fresh request writes behind the text that was kept.
TEST(Sliding, GoesOnAsFromTheTextThatIsKept) {
  GoldenModel golden("llama2", choose_isa());
  const int64_t positions = golden.model->spec().positions;
  for (const int64_t keep : {int64_t{0}, int64_t{3}}) {
    GenerateRequest request;
    request.prompt = {4, 8, 15, 16, 23};
    request.max_tokens = 3 * positions;
    request.sampler = greedy();
    request.ignore_eos = true;
    request.slide = true;
    request.keep = keep;
    Generator generator(golden.ctx, *golden.model, nullptr, {.prefill_rows = 7});
    const GenerateResult all = generator.generate(request);
    EXPECT_EQ(all.finish_reason, FinishReason::kLength);
    ASSERT_EQ(int64_t(all.ids.size()), request.max_tokens);
    // The text up to the first slide, and what that leaves of it.
    std::vector<int32_t> text = request.prompt;
    const size_t first = size_t(positions) - text.size();
    text.insert(text.end(), all.ids.begin(), all.ids.begin() + long(first));
    text.erase(text.begin() + keep, text.begin() + keep + (positions - keep) / 2);
    GenerateRequest rest;
    rest.prompt = text;
    rest.max_tokens = positions - int64_t(text.size());
    rest.sampler = greedy();
    rest.ignore_eos = true;
    const GenerateResult fresh = Generator(golden.ctx, *golden.model, nullptr).generate(rest);
    EXPECT_TRUE(std::equal(fresh.ids.begin(), fresh.ids.end(), all.ids.begin() + long(first))) << "keep " << keep;
  }
}

}  // namespace
}  // namespace espalier
