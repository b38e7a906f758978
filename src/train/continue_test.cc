// Continuing a model: of every family, from a folder and from a .gguf, with its tokenizer, and with new tokens.
#include <cmath>
#include <cstring>

#include "base/json_value.h"
#include "models/companions.h"
#include "models/golden_model.h"
#include "models/init.h"
#include "models/save.h"
#include "models/save_gguf.h"
#include "train/test_run.h"

namespace espalier {
namespace {

void continue_from(TestRun& run, const std::string& init) {
  run.config.model = {.init = init};
  run.config.run.max_steps = 3;
  run.config.run.log_every = 1;
}

/// The model in the run's folder is the trained one, and says of itself what it was.
void expect_continued(TestRun& run, const TrainOutcome& outcome, const ArchSpec& before, const std::string& what) {
  EXPECT_EQ(outcome.steps, 3) << what;
  EXPECT_TRUE(std::isfinite(outcome.loss)) << what;
  const auto loaded = load_model(run.ctx, one_process_mesh(), outcome.model_folder, {});
  EXPECT_TRUE(loaded->spec() == before) << what;
  const Snapshot trained = snapshot(run.newest());
  for (const Param& p : loaded->params())
    EXPECT_EQ(std::memcmp(p.master.data(), trained.at("model." + p.name).data(), size_t(p.master.bytes())), 0)
        << what << " " << p.name;
}

/// The golden model under a configuration that GGUF can say (models/save_gguf_test.cc: one pattern of layers and one
/// scale of scores a family).
void put_golden(const std::string& name, const std::string& folder) {
  std::filesystem::copy(golden_folder(name), folder);
  Json config = read_json_file(folder + "/config.json");
  if (name == "qwen2") config.update({{"use_sliding_window", false}, {"layer_types", nullptr}});
  if (name.starts_with("gemma")) config["query_pre_attn_scalar"] = config.at("head_dim");
  if (name == "gemma3") config["layer_types"] = {"sliding_attention", "sliding_attention"};
  if (name == "smollm3") config["no_rope_layers"] = {1, 1};
  put_file(folder + "/config.json", config.dump());
}

TEST(Continue, EveryFamilyFromAFolderAndFromAGguf) {
  for (const std::string& name : golden_names()) {
    TestRun run;
    const std::string folder = run.folder / "init";
    put_golden(name, folder);
    continue_from(run, folder);
    const ArchSpec spec = load_spec(folder);
    const auto first = run.trainer();
    const Snapshot untrained = snapshot(first->optimizer());
    const TrainOutcome outcome = first->run();
    expect_continued(run, outcome, spec, name);
    const std::string weight = "model.embedding.weight";
    EXPECT_NE(snapshot(first->optimizer()).at(weight), untrained.at(weight)) << name;

    TestRun again;
    save_gguf(again.ctx, folder, again.folder / "m.gguf", {.sync = false});
    continue_from(again, again.folder / "m.gguf");
    const TrainOutcome other = again.train();
    expect_continued(again, other, load_spec(again.folder / "m.gguf"), name + ".gguf");
    // The same weights and batches; Gemma's norms lost half an ulp of 1 (save_gguf_test.cc), 2^-24.
    EXPECT_NEAR(other.loss, outcome.loss, name.starts_with("gemma") ? 1e-5 * outcome.loss : 0) << name;
  }
}

/// A random model of `rows` rows with the golden tokenizer of 700 tokens, a template and settings of generation.
struct Speaking {
  Tokenizer tokenizer = Tokenizer::load(std::string(ESP_SOURCE_DIR) + "/tests/golden/tokenizer/gpt2.json");
  std::string folder;
  ArchSpec spec;

  Speaking(TestRun& run, const std::string& family, int64_t rows) : folder(run.folder / "init") {
    spec = load_spec(golden_folder(family));
    spec.vocab = rows;
    spec.bos = spec.eos = tokenizer.eos();
    Decoder model(spec, one_process_mesh(), DType::kF32, true);
    initialise(run.ctx, model, 5, 0.3);
    save_model(run.ctx, model, folder, {.sync = false});
    tokenizer.save(folder);
    put_file(folder + "/chat_template.jinja", "{{ messages }}");
    put_shards(run, tokenizer);
  }
  /// Ids of the old tokens, as prepared with this tokenizer.
  static void put_shards(TestRun& run, const Tokenizer& maker) {
    write_test_shards(run.folder / "data/a.tokens", {.vocab = 700, .vocab_hash = maker.vocab_hash()});
  }
};

TEST(Continue, TokenizerAndTemplateGoAlong) {
  TestRun run;
  const Speaking model(run, "gpt2", 700);
  save_gguf(run.ctx, model.folder, run.folder / "m.gguf", {.sync = false});
  for (const std::string& init : {model.folder, run.folder / "m.gguf"}) {
    continue_from(run, init);
    run.config.run.out = init + ".run";
    const TrainOutcome outcome = run.train();
    expect_continued(run, outcome, model.spec, init);
    EXPECT_EQ(Tokenizer::load(outcome.model_folder).vocab_hash(), model.tokenizer.vocab_hash()) << init;
    EXPECT_EQ(Tokenizer::load(outcome.model_folder).eos(), model.tokenizer.eos()) << init;
    EXPECT_EQ(read_file(outcome.model_folder + "/chat_template.jinja"), "{{ messages }}") << init;
  }
}

TEST(Continue, ShardsOfAnotherTokenizerAreRefused) {
  TestRun run;
  const Speaking model(run, "gpt2", 800);
  const Tokenizer other = Tokenizer::load(std::string(ESP_SOURCE_DIR) + "/tests/golden/tokenizer/llama3.json");
  continue_from(run, model.folder);
  Speaking::put_shards(run, other);
  expect_error(Code::kMismatch, "another tokenizer (hash", [&] { run.trainer(); });
  std::filesystem::copy(model.folder + "/tokenizer.json", run.folder / "data/tokenizer.json");
  expect_error(Code::kMismatch, "another tokenizer (hash", [&] { run.trainer(); });
  put_file(run.folder / "data/tokenizer.json", other.to_json());
  expect_error(Code::kMismatch, "than that of " + model.folder + ": token", [&] { run.trainer(); });
}

// 704 rows for 700 tokens: four of six new tokens take rows that are there.
TEST(NewTokens, RowsOptimizerPlanAndFilesAgree) {
  for (const char* family : {"llama2", "gpt2"})  // with a head of its own, and tied
    for (const bool gguf : {false, true}) {
      TestRun run;
      const Speaking model(run, family, 704);
      std::string init = model.folder;
      if (gguf) save_gguf(run.ctx, model.folder, init = run.folder / "m.gguf", {.sync = false});
      continue_from(run, init);
      run.config.model.new_tokens = {"<a>", "<b>", "<c>", "<d>", "<e>", "</e>"};
      run.config.model.vocab_multiple = 8;
      const TrainSetup setup = prepare_training(run.ctx, run.config);
      EXPECT_EQ(setup.spec.vocab, 712) << family;
      ArchSpec plain = setup.spec;
      plain.vocab = 704;
      const int64_t rows = setup.spec.tied_head ? 8 : 16;  // each with a weight, a gradient, two moments and their copy
      EXPECT_GE(setup.plan.total() - plan_memory(run.config, plain, DType::kF32, 2).total(),
                (4 + 4 + 8 + 12) * rows * plain.width);

      const TrainOutcome outcome = run.train();
      expect_continued(run, outcome, setup.spec, family);
      EXPECT_EQ(read_json_file(outcome.model_folder + "/config.json").at("vocab_size"), 712);
      EXPECT_EQ(RunStore::open_existing(run.config.run.out + "/run.sqlite").events()[1].text,
                "vocabulary: 706 tokens, 6 of them new, in 712 rows");
      const Tokenizer grown = Tokenizer::load(outcome.model_folder);
      EXPECT_EQ(grown.vocab_size(), 706);
      EXPECT_EQ(grown.id_of("</e>"), 705);
      EXPECT_EQ(grown.eos(), model.tokenizer.eos());
      EXPECT_EQ(read_file(outcome.model_folder + "/chat_template.jinja"), "{{ messages }}");
      // Continuing what came out needs no word about them; naming them again is an error.
      put_file(run.folder / "data/tokenizer.json", model.tokenizer.to_json());
      run.config.run.out = run.folder / "next";
      continue_from(run, outcome.model_folder);
      EXPECT_EQ(prepare_training(run.ctx, run.config).spec.vocab, 712);
      run.config.model.new_tokens = {"<f>", "<b>"};
      expect_error(Code::kUsage, "'<b>' is token 701", [&] { run.trainer(); });
    }
}

TEST(NewTokens, AResumeDoesNotGrowAgain) {
  TestRun whole, halves;
  for (TestRun* run : {&whole, &halves}) {
    const Speaking model(*run, "llama2", 704);
    continue_from(*run, model.folder);
    run->config.run.max_steps = 8;
    run->config.model.new_tokens = {"<a>", "<b>", "<c>", "<d>", "<e>", "</e>"};
  }
  whole.train();
  EXPECT_TRUE(halves.train_until(5).interrupted);
  halves.train();
  const Snapshot end = snapshot(halves.newest());
  expect_same(snapshot(whole.newest()), end);
  EXPECT_EQ(end.at("model.head.weight").size(), size_t(706 * 24));
  halves.config.model.new_tokens.pop_back();
  expect_error(Code::kMismatch, "model.new_tokens is", [&] { halves.trainer(); });
}

TEST(NewTokens, ShardsMayHaveThem) {
  TestRun run;
  const Speaking model(run, "llama2", 700);
  const std::vector<std::string> names = {"<a>", "<b>"};
  continue_from(run, model.folder);
  run.config.model.new_tokens = names;
  const Tokenizer grown = *prepare_training(run.ctx, run.config).vocabulary.tokenizer;
  write_test_shards(run.folder / "data/a.tokens", {.vocab = 702, .vocab_hash = grown.vocab_hash()});
  EXPECT_NO_THROW(run.trainer()) << "known by their hash";
  put_file(run.folder / "data/tokenizer.json", grown.to_json());
  EXPECT_NO_THROW(run.trainer()) << "and by the tokenizer beside them";
  run.config.model.new_tokens = {"<b>", "<a>"};
  expect_error(Code::kMismatch, "token 700 is '<a>' there and '<b>' here", [&] { run.trainer(); });
  run.config.model.new_tokens = {};
  expect_error(Code::kMismatch, "vocabulary of 702", [&] { run.trainer(); });
}

TEST(NewTokens, NeedAModelAndATokenizer) {
  TestRun run;
  run.config.model.new_tokens = {"<a>"};
  expect_error(Code::kUsage, "model.init is empty", [&] { run.trainer(); });
  continue_from(run, golden_folder("llama2"));
  run.config.model.new_tokens = {"<a>"};
  expect_error(Code::kUsage, "model.new_tokens needs a tokenizer", [&] { run.trainer(); });
  // Rows alone may grow without one, of a new model too.
  run.config.model.new_tokens = {};
  run.config.model.vocab_multiple = 64;
  EXPECT_EQ(prepare_training(run.ctx, run.config).spec.vocab, 64);
  run.config.model.init = "";
  EXPECT_EQ(prepare_training(run.ctx, run.config).spec.vocab, 64);
}

}  // namespace
}  // namespace espalier
