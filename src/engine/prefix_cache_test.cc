#include "engine/prefix_cache.h"

#include <gtest/gtest.h>

#include "engine/generator.h"
#include "models/tiny_model.h"

namespace espalier {
namespace {

using Ids = std::vector<int32_t>;

/// A model with room for prompts that are worth waiting for.
struct Model {
  ThreadPool pool{1};
  Context ctx{pool, silent_log(), choose_isa(), {}};
  Decoder model{tiny_spec("llama"), one_process_mesh(), DType::kF32, true};
  Model() { initialise(ctx, model, 5, 0.2); }

  GenerateResult alone(const GenerateRequest& request) {
    return Generator(ctx, model, nullptr).generate(request);
  }
};

/// `shared` tokens that all prompts have in common, and three of its own.
GenerateRequest request_of(int32_t number, int32_t shared = 60) {
  GenerateRequest request;
  for (int32_t i = 0; i < shared; ++i) request.prompt.push_back((i * 37 + 11) % 700);
  for (int32_t i = 0; i < 3; ++i) request.prompt.push_back((number * 91 + i * 5 + 3) % 700);
  request.max_tokens = 6;
  request.sampler = {.temperature = 1, .seed = 4};
  request.id = uint64_t(number);
  request.ignore_eos = true;
  return request;
}

TEST(SharedPrefixes, AreReadOnceByRequestsThatComeTogether) {
  Model m;
  Generator generator(m.ctx, m.model, nullptr, {.prefill_rows = 16});
  std::vector<GenerateRequest> requests;
  for (int32_t i = 0; i < 5; ++i) requests.push_back(request_of(i));
  requests.push_back(request_of(0));  // the same prompt once more
  const std::vector<GenerateResult> results = generator.generate(requests);
  for (size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i].ids, m.alone(requests[i]).ids) << i;
    EXPECT_EQ(results[i].cached_tokens, i == 0 ? 0 : i == 5 ? 62 : 60) << i;
  }
}

TEST(SharedPrefixes, AreCopiedFromARequestThatIsBeingAnswered) {
  Model m;
  Generator generator(m.ctx, m.model, nullptr, {.prefill_rows = 128});
  GenerateRequest longer = request_of(1, 10);
  longer.max_tokens = 40;
  const size_t first = generator.submit(longer);
  for (int i = 0; i < 5; ++i) generator.step();
  const GenerateResult second = generator.generate(request_of(2, 10));
  EXPECT_EQ(second.cached_tokens, 10);
  EXPECT_EQ(second.ids, m.alone(request_of(2, 10)).ids);
  while (generator.step()) {
  }
  EXPECT_EQ(generator.take(first)->ids, m.alone(longer).ids);
}

TEST(SharedPrefixes, FewTokensAreNotWaitedFor) {
  Model m;
  Generator generator(m.ctx, m.model, nullptr, {.prefill_rows = 4});
  const std::vector<GenerateResult> results = generator.generate({request_of(1, 20), request_of(2, 20)});
  EXPECT_EQ(results[1].cached_tokens, 0);
}

// A short question that waits for a part of a long prompt is not held up by that prompt's length.
TEST(SharedPrefixes, WhoIsWaitedForGoesFirst) {
  Model m;
  Generator generator(m.ctx, m.model, nullptr, {.prefill_rows = 8});
  std::vector<int> order;
  const auto submit = [&](int name, std::vector<int32_t> prompt) {
    GenerateRequest request = request_of(name);
    request.prompt = std::move(prompt);
    request.max_tokens = 1;
    request.on_token = [&order, name](int32_t, std::string_view) {
      order.push_back(name);
      return true;
    };
    generator.submit(std::move(request));
  };
  const auto tokens = [](int32_t seed, size_t count) {
    Ids ids;
    for (size_t i = 0; i < count; ++i) ids.push_back((seed * 97 + int32_t(i) * 13) % 700);
    return ids;
  };
  submit(1, tokens(1, 120));  // the oldest
  submit(2, tokens(2, 100));
  submit(3, tokens(3, 50));
  Ids question = tokens(2, 40);  // begins as the second
  question.insert(question.end(), {5, 6, 7});
  submit(4, question);
  while (generator.step()) {
  }
  EXPECT_EQ(order, (std::vector<int>{4, 3, 1, 2}));
}

// Whoever is waited for may go: the others go on by themselves, or behind each other, and never in a ring.
TEST(SharedPrefixes, GoOnWithoutARequestThatIsCancelled) {
  Model m;
  for (const int steps : {0, 1, 2, 3}) {
    Generator generator(m.ctx, m.model, nullptr, {.prefill_rows = 16});
    std::vector<size_t> numbers;
    for (int32_t i = 0; i < 4; ++i) numbers.push_back(generator.submit(request_of(i)));
    for (int i = 0; i < steps; ++i) generator.step();
    generator.cancel(numbers[0]);
    for (int i = 0; i < 100 && generator.step(); ++i) {
    }
    for (int32_t i = 1; i < 4; ++i) {
      const auto result = generator.take(numbers[size_t(i)]);
      ASSERT_TRUE(result) << i << " after " << steps;
      EXPECT_EQ(result->ids, m.alone(request_of(i)).ids);
    }
  }
}

TEST(PrefixCache, MovesWhatIsUsedUpAndCopiesTheRest) {
  const ArchSpec spec = tiny_spec("llama");
  const auto read = [&](int64_t length) {
    KvCache cache(spec);
    cache.reserve(length);
    cache.advance(length);
    return cache;
  };
  PrefixCache memory({.texts = 2});
  memory.add({1, 2, 3, 4, 5}, "", read(4));
  EXPECT_EQ(memory.longest({Ids{1, 2, 9}}, 10), 2);
  EXPECT_EQ(memory.longest({Ids{1, 2, 3, 4, 5, 6}}, 10), 4) << "the fifth was never read";
  EXPECT_EQ(memory.longest({Ids{1, 2, 3, 4}}, 3), 3);
  KvCache cache(spec);
  EXPECT_EQ(memory.take({Ids{1, 2, 9}}, 2, cache), 2);
  EXPECT_EQ(cache.length(), 2);
  EXPECT_EQ(memory.longest({Ids{1, 2, 3, 4, 5, 6}}, 10), 4) << "only a part was taken";
  EXPECT_EQ(memory.take({Ids{1, 2, 3, 4, 5, 6}}, 5, cache), 4);
  EXPECT_EQ(memory.longest({Ids{1, 2, 3, 4, 5, 6}}, 10), 0) << "it was continued";
  // A longer text takes the place of its beginning; the one used the longest ago goes first.
  memory.add({1, 2, 3}, "", read(3));
  memory.add({1, 2, 3, 4}, "", read(4));
  memory.add({7, 8}, "", read(2));
  EXPECT_EQ(memory.longest({Ids{1, 2, 3, 4}}, 10), 4);
  EXPECT_EQ(memory.take({Ids{1, 5}}, 10, cache), 1);
  memory.add({9, 9}, "", read(2));
  EXPECT_EQ(memory.longest({Ids{7, 8}}, 10), 0);
  EXPECT_EQ(memory.longest({Ids{1, 2, 3, 4}}, 10), 4);
}

TEST(PrefixCache, WhatAnotherReaderReadIsAnotherText) {
  PrefixCache memory({.texts = 4});
  KvCache cache(tiny_spec("llama"));
  cache.advance(3);
  memory.add({1, 2, 3}, "a", std::move(cache));
  EXPECT_EQ(memory.longest({Ids{1, 2, 3}, "a"}, 9), 3);
  EXPECT_EQ(memory.longest({Ids{1, 2, 3}, "b"}, 9), 0);
  EXPECT_EQ(memory.longest({Ids{1, 2, 3}}, 9), 0);
}

TEST(PrefixCache, KeepsToItsBytes) {
  const ArchSpec spec = tiny_spec("llama");
  PrefixCache memory({.texts = 9, .bytes = 3 * KvCache(spec).bytes() - 1});
  for (int32_t i = 0; i < 3; ++i) {
    KvCache cache(spec);
    cache.advance(2);
    memory.add({i, i}, "", std::move(cache));
  }
  EXPECT_EQ(memory.longest({Ids{0, 0}}, 9), 0);
  EXPECT_EQ(memory.longest({Ids{2, 2}}, 9), 2);
}

}  // namespace
}  // namespace espalier
