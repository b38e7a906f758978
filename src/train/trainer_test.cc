// The loop on tiny models: it learns, it says how, it needs what it promised, it leaves a whole run folder.
#include "train/trainer.h"

#include <cmath>
#include <fstream>
#include <functional>

#include "base/json_value.h"
#include "models/golden_model.h"
#include "models/load.h"
#include "text/tokenizer.h"
#include "train/test_run.h"

namespace espalier {
namespace {

std::vector<Json> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<Json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(Json::parse(line));
  return lines;
}

std::vector<double> metric(const TestRun& run, const char* name) {
  std::vector<double> values;
  for (const Json& line : lines_of(run.config.run.out + "/metrics.jsonl"))
    if (line.contains(name) && !line[name].is_null()) values.push_back(line[name].get<double>());
  return values;
}

TEST(Trainer, TheLossFallsForEveryFamilyOptimizerAndPrecision) {
  for (const auto& [family, kind, dtype] : {std::tuple{"gpt2", "adamw", "f32"},
                                            {"llama", "adamw", "bf16"},
                                            {"llama", "muon", "f32"},
                                            {"gpt2", "lamb", "bf16"}}) {
    TestRun run(family);
    run.config.run.max_steps = 80;
    run.config.optim.kind = kind;
    run.config.optim.lr = std::string(kind) == "lamb" ? 0.06 : 0.01;  // the trust ratio makes steps small
    run.config.compute.dtype = dtype;
    run.config.data.val = run.config.data.train;
    run.config.run.eval_every = 40;
    const TrainOutcome outcome = run.train();
    const std::vector<double> losses = metric(run, "loss");
    EXPECT_NEAR(losses.front(), std::log(61), 0.6) << "a fresh model knows nothing";
    EXPECT_LT(*outcome.val_loss, 0.75 * std::log(61)) << family << " " << kind << " " << dtype;
    EXPECT_EQ(outcome.steps, 80);
  }
}

TEST(Trainer, LeavesAWholeRunFolder) {
  TestRun run;
  run.config.data.val = run.config.data.train;
  run.config.run.eval_every = 6;
  run.config.run.sample_every = 6;
  run.config.run.sample_prompt = "ab";
  const TrainOutcome outcome = run.train({.sample = [](Decoder&) { return std::string("cd"); }});
  const std::string out = run.config.run.out;
  for (const char* name : {"config.toml", "metrics.jsonl", "run.sqlite", "report.html", "model/config.json",
                           "model/model.safetensors", "checkpoints/step-12/manifest.json"})
    EXPECT_TRUE(std::filesystem::exists(out + "/" + name)) << name;
  TrainConfig saved;
  config_from_toml_file(out + "/config.toml", ESP_CONFIG(saved));
  EXPECT_EQ(saved.compute.dtype, "f32");
  EXPECT_EQ(saved.model.width, 32);
  for (const char* name : {"loss", "val_loss", "lr", "grad_norm", "tokens", "tokens_per_s", "step_ms",
                           "loader_stall_ms", "checkpoint_stall_ms", "skipped"})
    EXPECT_FALSE(metric(run, name).empty()) << name;
  EXPECT_EQ(metric(run, "tokens").back(), 12 * 4 * 32);
  RunStore store = RunStore::open_existing(out + "/run.sqlite");
  EXPECT_EQ(store.metrics("loss").size(), 3u);
  EXPECT_EQ(store.samples().size(), 3u) << "before, after six steps, at the end";
  EXPECT_EQ(store.samples()[1].text, "cd");
  EXPECT_EQ(store.runs().back().status, "finished");
  // The model in the folder is the one that was trained.
  const auto loaded = load_model(run.ctx, one_process_mesh(), outcome.model_folder, {});
  const Snapshot trained = snapshot(run.newest());
  for (const Param& p : loaded->params())
    EXPECT_EQ(std::memcmp(p.master.data(), trained.at("model." + p.name).data(), size_t(p.master.bytes())), 0)
        << p.name;
}

TEST(Trainer, EndsByTime) {
  TestRun run;
  run.config.run.max_steps = 0;
  run.config.run.max_minutes = 0.3 / 60;
  run.config.optim.warmup_steps = 1;
  run.config.run.log_every = 1;
  const TrainOutcome outcome = run.train();
  EXPECT_GT(outcome.steps, 0);
  const std::vector<double> rates = metric(run, "lr");
  for (size_t i = 1; i < rates.size(); ++i) EXPECT_LE(rates[i], rates[i - 1]) << "the schedule follows the clock";
}

TEST(Trainer, AnInterruptSavesAndSaysSo) {
  TestRun run;
  const TrainOutcome outcome = run.train_until(5);
  EXPECT_TRUE(outcome.interrupted);
  EXPECT_EQ(outcome.steps, 5);
  EXPECT_EQ(run.newest().step(), 5);
  EXPECT_EQ(RunStore::open_existing(run.config.run.out + "/run.sqlite").runs().back().status, "interrupted");
}

TEST(Trainer, ContinuesFromAnotherModel) {
  TestRun first, second;
  first.config.run.max_steps = 60;
  first.config.optim.lr = 0.01;
  first.train();
  second.config.model = {};  // all of it comes from the model
  second.config.model.init = first.config.run.out;
  second.config.optim.lr = 1e-5;
  second.config.run.max_steps = 4;
  second.config.run.log_every = 1;
  second.train();
  EXPECT_LT(metric(second, "loss").front(), 0.8 * metric(first, "loss").front());
  second.config.data.context = 64;
  second.config.run.out = second.folder / "longer";
  expect_error(Code::kMismatch, "at most 32 positions", [&] { second.trainer(); });
}

TEST(Trainer, GivesUpWhenEveryStepIsRefused) {
  TestRun run;
  run.config.run.skip_limit = 4;
  run.config.run.max_steps = 100;
  const auto trainer = run.trainer();
  trainer->model().find("layers.0.ffn.up.weight")->master.as<float>()[3] = std::nanf("");
  expect_error(Code::kBadData, "4 steps in a row were refused", [&] { trainer->run(); });
  RunStore store = RunStore::open_existing(run.config.run.out + "/run.sqlite");
  EXPECT_EQ(store.runs().back().status, "failed");
  int64_t skips = 0;
  for (const EventRow& event : store.events()) {
    if (event.kind != "skip") continue;
    ++skips;
    EXPECT_NE(event.text.find("layers.0.ffn.up.weight"), std::string::npos) << event.text;
  }
  EXPECT_EQ(skips, 4);
}

TEST(Trainer, ARunThatAnErrorEndsHasFailed) {
  TestRun run;
  run.config.run.sample_every = 8;
  run.config.run.sample_prompt = "x";
  int64_t samples = 0;
  const auto failing = [&](Decoder&) -> std::string {
    if (++samples == 2) throw error(Code::kNoSpace, "no room for a sample");
    return "";
  };
  const auto trainer = run.trainer({.sample = failing});
  expect_error(Code::kNoSpace, "no room", [&] { trainer->run(); });
  EXPECT_EQ(RunStore::open_existing(run.config.run.out + "/run.sqlite").runs().back().status, "failed");
}

TEST(Trainer, AFailedBeginningLetsTheRunFolderGo) {
  TestRun run;
  run.config.data.context = 100'000;  // more than the shards hold
  run.config.model.layers = 1;
  expect_error(Code::kMismatch, "make no sample", [&] { run.trainer(); });
  run.config.data.context = 32;
  EXPECT_NO_THROW(run.trainer());
}

TEST(Trainer, RefusesDataThatDoesNotBelongToTheModel) {
  TestRun run;
  run.config.model.vocab = 60;
  expect_error(Code::kMismatch, "vocabulary of 61", [&] { run.trainer(); });
  run.config.model.vocab = 0;
  std::filesystem::create_directories(run.folder / "val");
  write_test_shards(run.folder / "val/a.tokens", {.vocab_hash = 5});
  run.config.data.val = run.folder / "val";
  expect_error(Code::kMismatch, "different tokenizers", [&] { run.trainer(); });
  run.config.data.val = run.folder / "nothing";
  expect_error(Code::kNotFound, "nothing", [&] { run.trainer(); });
}

TEST(Trainer, TheTokenizerOfTheDataGoesWithTheModel) {
  const std::string golden = std::string(ESP_SOURCE_DIR) + "/tests/golden/tokenizer/gpt2.json";
  const Tokenizer tokenizer = Tokenizer::load(golden);
  const TestShards shards{.vocab = tokenizer.vocab_size(), .vocab_hash = tokenizer.vocab_hash()};
  TestRun run("llama", 2, shards);
  std::filesystem::copy(golden, run.folder / "data/tokenizer.json");
  run.train();
  EXPECT_EQ(Tokenizer::load(run.config.run.out + "/model").vocab_hash(), tokenizer.vocab_hash());
  write_test_shards(run.folder / "data/a.tokens", {.vocab = shards.vocab, .vocab_hash = 77});
  expect_error(Code::kMismatch, "another tokenizer", [&] { run.trainer(); });
}

TEST(Trainer, RefusesAModelThatDoesNotFit) {
  TestRun run;
  run.config.model.width = 1 << 15;
  run.config.model.heads = 256;
  run.config.model.layers = 100;
  expect_error(Code::kNoSpace, "TiB of memory", [&] { run.trainer(); });
}

// Prediction against the pool itself: same sizes, same order up to what happens between two allocations. In each dtype,
// with and without recomputation and dropout.
void expect_planned(const std::string& what, const std::function<void(TrainConfig&)>& choose) {
  for (const char* dtype : {"f32", "bf16"})
    for (const bool recompute : {false, true})
      for (const double dropout : {0.0, 0.1}) {
        TestRun run;
        choose(run.config);
        run.config.model.dropout = dropout;
        run.config.compute.dtype = dtype;
        run.config.compute.recompute = recompute;
        run.config.run.max_steps = 3;
        const auto trainer = run.trainer();
        trainer->run();
        const double predicted =
            double(activation_bytes(trainer->model().spec(), 4 * 32, parse_dtype(dtype), run.config));
        EXPECT_NEAR(predicted, double(trainer->buffer_bytes()), 0.15 * predicted)
            << what << " " << dtype << " recompute " << recompute << " dropout " << dropout;
      }
}

TEST(MemoryPlan, ActivationsAreWhatThePoolAllocates) {
  for (const char* family : {"gpt2", "llama"})
    expect_planned(family, [&](TrainConfig& c) {
      c.model.family = family;
      c.model.kv_heads = c.model.family == "llama" ? 2 : 0;
      c.model.layers = 3;
    });
}

TEST(MemoryPlan, ActivationsOfEveryFamilyAreWhatThePoolAllocates) {
  for (const std::string& name : golden_names())
    expect_planned(name, [&](TrainConfig& c) { c.model.init = golden_folder(name); });
}

}  // namespace
}  // namespace espalier
