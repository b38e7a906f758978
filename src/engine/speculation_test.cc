// Guesses change the time, never the text.
#include "engine/speculation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ranges>

#include "base/error.h"
#include "engine/async_drafter.h"
#include "engine/draft_setup.h"
#include "engine/generator.h"
#include "engine/lookup_drafter.h"
#include "engine/model_drafter.h"
#include "engine/token_tree.h"
#include "models/golden_model.h"

namespace espalier {
namespace {

GenerateRequest request_of(uint64_t number, const ArchSpec& spec) {
  const Rng rng(number, Purpose::kTest, 23);
  GenerateRequest r;
  r.prompt.resize(1 + rng.below(0, 9));
  for (size_t i = 0; i < r.prompt.size(); ++i) r.prompt[i] = int32_t(rng.below(i + 1, uint64_t(spec.vocab)));
  r.max_tokens = 1 + int64_t(rng.below(100, 20));
  r.sampler = {.temperature = number % 3 == 0 ? 0.0 : 1.2, .top_p = 0.9,
               .repetition_penalty = number % 2 ? 1.2 : 1.0, .seed = int64_t(number)};
  r.ignore_eos = number % 4 != 0;
  r.slide = number % 7 == 0;
  if (r.slide) r.max_tokens = 50;
  if (number % 5 == 0) r.stop_ids = {int32_t(rng.below(200, uint64_t(spec.vocab)))};
  return r;
}

/// A model, another that guesses for it, and what the first writes alone.
struct Pair {
  explicit Pair(const std::string& target_name = "llama2", const std::string& draft_name = "mistral")
      : target(target_name, choose_isa()), draft(draft_name, choose_isa()) {}
  GenerateResult plain(const GenerateRequest& request) {
    Generator generator(target.ctx, *target.model, nullptr);
    return generator.generate(request);
  }
  Generator guided(Drafter& drafter, int64_t most) {
    return Generator(target.ctx, *target.model, nullptr,
                     {.remember = 2, .speculation = {.drafter = &drafter, .most = most, .adaptive = false}});
  }
  GoldenModel target, draft;
};

void expect_same(const GenerateResult& a, const GenerateResult& b, uint64_t number) {
  EXPECT_EQ(a.ids, b.ids) << "request " << number;
  EXPECT_EQ(a.finish_reason, b.finish_reason) << "request " << number;
}

TEST(Speculation, TextsAreThoseOfPlainDecodingWhateverTheTree) {
  Pair pair;
  const ModelDrafterOptions shapes[] = {{.width = 1, .children = 1, .most_steps = 4},
                                        {.width = 1, .children = 3, .most_steps = 2},
                                        {.width = 4, .children = 2, .most_steps = 5},
                                        {.width = 8, .children = 8, .most_steps = 3, .most_nodes = 20},
                                        {.width = 3, .children = 4, .most_steps = 4, .head_rows = 30}};
  for (const ModelDrafterOptions& shape : shapes) {
    ModelDrafter drafter(pair.target.ctx, *pair.draft.model, pair.target.model->spec().vocab, shape);
    Generator generator = pair.guided(drafter, 7);
    for (uint64_t number = 0; number < 40; ++number) {
      const GenerateRequest request = request_of(number, pair.target.model->spec());
      expect_same(generator.generate(request), pair.plain(request), number);
      ASSERT_EQ(int64_t(drafter.cache().length()) - drafter.prefix(),
                std::ranges::count_if(std::views::iota(0, drafter.tree().size()),
                                      [&](int32_t i) { return drafter.tree().at(i).cell >= 0; }));
    }
    EXPECT_GT(generator.speculation().counters().passes, 20);
  }
}

TEST(Speculation, EveryFamilyKeepsItsText) {
  for (const std::string& name : golden_names()) {
    Pair pair(name, name);
    ModelDrafter drafter(pair.target.ctx, *pair.draft.model, pair.target.model->spec().vocab,
                         {.width = 3, .children = 3, .most_steps = 3});
    Generator generator = pair.guided(drafter, 6);
    for (uint64_t number = 0; number < 12; ++number) {
      const GenerateRequest request = request_of(number, pair.target.model->spec());
      expect_same(generator.generate(request), pair.plain(request), number);
    }
  }
}

// A chain that the model itself guesses is right to the end, so every pass gives all of its guesses and one more.
TEST(Speculation, AModelThatDraftsForItselfIsAlwaysRight) {
  Pair pair("llama2", "llama2");
  ModelDrafter drafter(pair.target.ctx, *pair.draft.model, pair.target.model->spec().vocab,
                       {.width = 1, .children = 1, .most_steps = 4});
  Generator generator = pair.guided(drafter, 4);
  GenerateRequest request;
  request.prompt = {3, 5, 7};
  request.max_tokens = 40;
  request.sampler.temperature = 0;
  request.ignore_eos = true;
  expect_same(generator.generate(request), pair.plain(request), 0);
  const SpeculationCounters& c = generator.speculation().counters();
  EXPECT_EQ(c.accepted, c.guessed);
  EXPECT_GT(c.passes, 5);
}

// The draft's tree below a verdict is kept with its cache: its passes see what a fresh drafter's would.
TEST(Speculation, TheKeptTreeIsWhatAFreshOneWouldBe) {
  Pair pair;
  const int64_t vocab = pair.target.model->spec().vocab;
  const ModelDrafterOptions shape{.width = 2, .children = 2, .most_steps = 4};
  ModelDrafter kept(pair.target.ctx, *pair.draft.model, vocab, shape);
  std::vector<int32_t> text = {1, 9, 4, 33};
  const Rng rng(4, Purpose::kTest, 1);
  for (uint64_t round = 0; round < 30; ++round) {
    ModelDrafter fresh(pair.target.ctx, *pair.draft.model, vocab, shape);
    kept.follow(text);
    fresh.follow(text);
    for (int i = 0; i < 12; ++i) kept.grow(), fresh.grow();
    // The same weights for the same paths, but for the sums of logarithms that a new root takes apart.
    for (int32_t i = 1; i < kept.tree().size(); ++i) {
      int32_t node = 0;
      bool known = true;
      for (const int32_t step : kept.tree().path_to(i)) {
        if (step == 0) continue;
        const auto next = fresh.tree().child(node, kept.tree().at(step).token);
        if (!(known = next.has_value())) break;
        node = *next;
      }
      if (!known) continue;
      EXPECT_NEAR(fresh.tree().at(node).log_weight, kept.tree().at(i).log_weight, 1e-12);
    }
    // On through the tree for one to three tokens, and now and then out of it.
    int32_t node = 0;
    for (uint64_t step = 0; step <= rng.below(round, 3); ++step) {
      std::vector<int32_t> children;
      for (int32_t i = 1; i < kept.tree().size(); ++i)
        if (kept.tree().at(i).parent == node) children.push_back(i);
      if (children.empty()) break;
      node = children[rng.below(100 + round * 4 + step, children.size())];
      text.push_back(kept.tree().at(node).token);
    }
    if (round % 5 == 4) text.push_back(int32_t(rng.below(500 + round, uint64_t(vocab))));
  }
  EXPECT_GT(kept.counters().hits, 15);
  EXPECT_GT(kept.counters().misses, 2);
}

TEST(Speculation, AnAsyncDraftKeepsTheText) {
  Pair pair;
  ThreadPool pool(1);
  Context beside{pool, silent_log(), choose_isa(), {}};
  AsyncDrafter drafter(beside, *pair.draft.model, pair.target.model->spec().vocab,
                       {.width = 3, .children = 3, .most_nodes = 60});
  Generator generator = pair.guided(drafter, 7);
  for (uint64_t number = 0; number < 60; ++number) {
    const GenerateRequest request = request_of(number, pair.target.model->spec());
    expect_same(generator.generate(request), pair.plain(request), number);
  }
  EXPECT_GT(drafter.counters().passes, 60);
}

// Where costs are not known it waits for guesses; a text that takes them all never leaves the tree.
TEST(Speculation, AnAsyncDraftGoesOnBelowItsGuesses) {
  Pair pair;
  ThreadPool pool(1);
  Context beside{pool, silent_log(), choose_isa(), {}};
  AsyncDrafter drafter(beside, *pair.draft.model, 30, {.width = 2, .children = 2});  // never guesses ids from 30 on
  std::vector<int32_t> text = {1, 2, 3};
  for (int i = 0; i < 50; ++i) {
    const Draft draft = drafter.propose(text, 4, {});
    ASSERT_GT(draft.size(), 0);
    text.push_back(draft.tokens[0]);
  }
  const DrafterCounters counters = drafter.counters();
  EXPECT_EQ(counters.misses, 0);
  EXPECT_GT(counters.hits, 0);
  EXPECT_DOUBLE_EQ(counters.first_right(), 1);
  // At such a rate no guess is worth its time: a text that the tree does not know gets none at once.
  text.push_back(40);
  EXPECT_EQ(drafter.propose(text, 4, {.tokens_per_s = 1e9}).size(), 0);
  EXPECT_GT(drafter.propose(text, 4, {}).size(), 0);
}

TEST(Speculation, PreparedOutcomesKeepTheText) {
  Pair pair;
  ThreadPool pool(1);
  Context beside{pool, silent_log(), choose_isa(), {}};
  AsyncDrafter drafter(beside, *pair.draft.model, pair.target.model->spec().vocab,
                       {.width = 6, .children = 4, .outcomes = OutcomeOptions{.chain = 3, .fan = 3}});
  Generator generator = pair.guided(drafter, 7);
  for (uint64_t number = 0; number < 60; ++number) {
    const GenerateRequest request = request_of(number, pair.target.model->spec());
    expect_same(generator.generate(request), pair.plain(request), number);
  }
  EXPECT_GT(drafter.counters().passes, 60);
}

TEST(Speculation, AnAsyncDraftThatFailsSaysSo) {
  Pair pair;
  ThreadPool pool(1);
  Context beside{pool, silent_log(), choose_isa(), {}};
  pair.draft.model->find("layers.0.ffn.up.weight")->master.as<float>()[0] = NAN;
  AsyncDrafter drafter(beside, *pair.draft.model, 61, {});
  const std::vector<int32_t> text = {1, 2, 3};
  for (int i = 0; i < 3; ++i) EXPECT_EQ(drafter.propose(text, 4, {}).size(), 0);  // NaN is no guess
}

TEST(Speculation, ADraftOfAnotherVocabularyIsRefused) {
  const auto tokenizer = [](const char* vocab) {
    const std::string model = fmt::format(R"({{"type": "BPE", "vocab": {}, "merges": []}})", vocab);
    return Tokenizer::from_json(fmt::format(R"({{"model": {}}})", model), "t");
  };
  const Tokenizer model = tokenizer(R"({"a": 0, "b": 1, "c": 2})");
  check_same_vocabulary(model, tokenizer(R"({"a": 0, "b": 1})"), "d");
  check_same_vocabulary(model, tokenizer(R"({"a": 0, "b": 1, "c": 2, "d": 3})"), "d");
  try {
    check_same_vocabulary(model, tokenizer(R"({"a": 0, "c": 1, "b": 2})"), "d");
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kMismatch);
    EXPECT_NE(std::string(e.what()).find("token 1 is 'c', the model's is 'b'"), std::string::npos) << e.what();
  }
}

TEST(Speculation, LookingUpFindsWhatFollowedBefore) {
  LookupDrafter drafter;
  const std::vector<int32_t> text = {5, 6, 7, 8, 9, 1, 2, 5, 6, 7};
  const Draft draft = drafter.propose(text, 3, {});
  EXPECT_EQ(draft.tokens, (std::vector<int32_t>{8, 9, 1}));
  EXPECT_EQ(draft.parents, (std::vector<int32_t>{-1, 0, 1}));
  EXPECT_EQ(drafter.propose(std::vector<int32_t>{1, 2, 3}, 3, {}).size(), 0);
  EXPECT_EQ(drafter.propose(std::vector<int32_t>{1}, 3, {}).size(), 0);
  Pair pair;
  Generator generator = pair.guided(drafter, 5);
  for (uint64_t number = 0; number < 20; ++number) {
    GenerateRequest request = request_of(number, pair.target.model->spec());
    request.max_tokens = 30;
    expect_same(generator.generate(request), pair.plain(request), number);
  }
}

TEST(Speculation, RestsWhereItLoses) {
  /// Guesses that are never right.
  struct Wrong : Drafter {
    int64_t asked = 0;
    Draft propose(std::span<const int32_t>, int64_t, const PassCosts&) override {
      ++asked;
      return {.tokens = {-1}, .parents = {-1}};
    }
  } wrong;
  Speculation speculation({.drafter = &wrong});
  const std::vector<int32_t> text = {1};
  for (int i = 0; i < 400; ++i) {
    const Draft draft = speculation.propose(text, 10);
    speculation.note(draft.size() > 0 ? 1.5 : 1.0, draft.size(), 0);
  }
  EXPECT_GT(wrong.asked, 12);
  EXPECT_LT(wrong.asked, 120);
}

TEST(TokenTree, HeaviestNodesAreATree) {
  TokenTree tree;
  tree.plant(1);
  const int32_t a = tree.add(0, 10, -0.1), b = tree.add(0, 11, -2), c = tree.add(a, 12, 0), d = tree.add(b, 13, -0.1);
  EXPECT_EQ(tree.heaviest(2), (std::vector<int32_t>{a, c}));
  EXPECT_EQ(tree.heaviest(9), (std::vector<int32_t>{a, b, c, d}));
  EXPECT_EQ(tree.frontier(2), (std::vector<int32_t>{0, a}));
  EXPECT_EQ(tree.child(0, 11), b);
  EXPECT_EQ(tree.child(a, 11), std::nullopt);
  EXPECT_EQ(tree.path_to(d), (std::vector<int32_t>{0, b, d}));
  EXPECT_EQ(tree.reroot(b), (std::vector<int32_t>{b, d}));
  EXPECT_EQ(tree.at(0).token, 11);
  EXPECT_EQ(tree.at(1).depth, 1);
  EXPECT_NEAR(tree.at(1).log_weight, -0.1, 1e-12);
}

// A chain of two guesses, and what may come instead of the first, of the second, and behind both.
TEST(OutcomeFrontier, GoesFromTheChainToItsOutcomesToTheirContinuations) {
  TokenTree tree;
  tree.plant(1);
  const OutcomeOptions options{.chain = 2, .fan = 2};
  const auto see = [&](const std::vector<int32_t>& nodes) {
    for (const int32_t node : nodes) {
      tree.set_cell(node, tree.size());
      for (int32_t rank = 0; rank < 3; ++rank) tree.add(node, 10 + rank, -1 - rank);
    }
  };
  std::vector<std::vector<int32_t>> passes;
  for (std::vector<int32_t> next; !(next = outcome_frontier(tree, options, 3)).empty(); see(next))
    passes.push_back(next);
  ASSERT_GE(passes.size(), 4u);
  EXPECT_EQ(passes[0], (std::vector<int32_t>{0}));
  EXPECT_EQ(passes[1], (std::vector<int32_t>{1}));   // the chain: 10, 10
  EXPECT_EQ(passes[2], (std::vector<int32_t>{4}));
  EXPECT_EQ(passes[3], (std::vector<int32_t>{2, 3, 5}));  // 11 or 12 instead of the first, 11 instead of the second
  EXPECT_EQ(passes[4], (std::vector<int32_t>{7, 10, 13}));  // what follows both, and behind 11 and 12
  // Every outcome has its chain: two instead of the first, one each behind one and two guesses.
  for (const auto& [node, token] : {std::pair{0, 11}, {0, 12}, {1, 11}, {4, 10}}) {
    const std::optional<int32_t> head = tree.child(node, token);
    ASSERT_TRUE(head);
    EXPECT_EQ(likeliest_chain(tree, *head, 9).size(), 2u) << node << " " << token;
  }
}

TEST(TokenTree, WhatNoPassHasSeenAndWeighsLeastGoes) {
  TokenTree tree;
  tree.plant(1);
  const int32_t a = tree.add(0, 10, -0.1), b = tree.add(0, 11, -2), c = tree.add(a, 12, -3), d = tree.add(a, 13, -1);
  tree.set_cell(0, 4);
  tree.set_cell(a, 5);
  EXPECT_EQ(tree.drop_lightest(1), (std::vector<int32_t>{0, a, d}));
  EXPECT_EQ(tree.seen(), 2);
  EXPECT_EQ(tree.child(a, 13), 2);
  EXPECT_EQ(tree.child(0, 11), std::nullopt) << b << c;
}

}  // namespace
}  // namespace espalier
