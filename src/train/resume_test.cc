// A resumed run is the uninterrupted one bit for bit: weights, moments, the loader's place, the guard, the best.
#include <fstream>
#include <thread>

#include "base/json_value.h"
#include "train/test_run.h"

namespace espalier {
namespace {

struct Ending {
  Snapshot tensors;
  Json state;
};

Ending ending_of(TestRun& run) {
  const Checkpoint checkpoint = run.newest();
  Json state = checkpoint.state();
  state.erase("trained_s");  // time is what no resume can repeat
  return {snapshot(checkpoint), state};
}

/// Trains `config` in one go with 2 threads, and again stopped at `stop` and resumed with `threads`.
void expect_resume_is_exact(const std::string& family, int threads, int64_t stop, void (*change)(TrainConfig&)) {
  TestRun whole(family), parts(family), resumed(family, threads);
  change(whole.config);
  change(parts.config);
  whole.train();
  const int64_t total = parts.config.run.max_steps;
  parts.train_until(stop);
  ASSERT_EQ(parts.newest().step(), stop);
  resumed.config = parts.config;
  resumed.config.run.max_steps = total;
  resumed.train();
  const Ending a = ending_of(whole), b = ending_of(resumed);
  expect_same(a.tensors, b.tensors);
  EXPECT_EQ(a.state, b.state);
}

TEST(Resume, IsExactMidEpochWithAccumulation) {
  expect_resume_is_exact("gpt2", 2, 5, [](TrainConfig& c) { c.data.accumulate = 3; });
}

TEST(Resume, IsExactWithAnotherNumberOfThreads) {
  for (const int threads : {1, 3}) expect_resume_is_exact("llama", threads, 6, [](TrainConfig&) {});
}

TEST(Resume, IsExactWithDropoutRecomputationAndBf16) {
  expect_resume_is_exact("gpt2", 1, 7, [](TrainConfig& c) {
    c.model.dropout = 0.1;
    c.compute.recompute = true;
    c.compute.dtype = "bf16";
  });
}

TEST(Resume, IsExactForEveryOptimizer) {
  expect_resume_is_exact("llama", 2, 5, [](TrainConfig& c) { c.optim.kind = "lamb"; });
  expect_resume_is_exact("llama", 1, 5, [](TrainConfig& c) { c.optim.kind = "muon"; });
}

TEST(Resume, KeepsTheGuardsMemoryAndTheBest) {
  expect_resume_is_exact("gpt2", 2, 9, [](TrainConfig& c) {
    c.data.val = c.data.train;
    c.run.eval_every = 3;
    c.run.spike_z = 6;
    c.run.max_steps = 20;
  });
}

TEST(Resume, TwiceIsStillExact) {
  TestRun whole, parts;
  whole.train();
  for (const int64_t stop : {2, 5, 9}) parts.train_until(stop);
  parts.train();
  expect_same(ending_of(whole).tensors, ending_of(parts).tensors);
}

// A step of many micro-batches takes long: Ctrl-C drops the step that it meets, and the resume does it again.
TEST(Resume, IsExactWhenStoppedInTheMiddleOfAStep) {
  TestRun whole, parts;
  whole.config.data.accumulate = parts.config.data.accumulate = 5;
  whole.train();
  int64_t asked = 0;  // before each step and between its micro-batches: five times a step
  parts.train({.interrupted = [&] { return ++asked > 6 * 5 + 3; }});
  EXPECT_EQ(parts.newest().step(), 6);
  parts.train();
  expect_same(ending_of(whole).tensors, ending_of(parts).tensors);
}

TEST(Resume, KeepsTheBestCheckpointBeyondTheLast) {
  TestRun run;
  run.config.data.val = run.config.data.train;
  run.config.run.keep_last = 1;
  run.config.run.max_steps = 24;
  run.config.optim.lr = 0.05;  // too high: the loss goes up again
  run.config.optim.schedule = "constant";
  const TrainOutcome outcome = run.train();
  ASSERT_TRUE(outcome.best);
  std::vector<int64_t> steps;
  for (const CheckpointEntry& entry : find_checkpoints(run.config.run.out + "/checkpoints"))
    steps.push_back(entry.step);
  std::set<int64_t> expected = {outcome.best->step, 24};
  EXPECT_EQ(steps, std::vector<int64_t>(expected.begin(), expected.end()));
}

TEST(Resume, KeepsThePrecisionThatAutoChoseAtTheStart) {
  TestRun run;
  run.config.compute.dtype = "bf16";
  run.train_until(4);
  run.config.compute.dtype = "auto";
  EXPECT_EQ(run.trainer()->model().dtype(), DType::kBF16);
}

TEST(Resume, FallsBackToTheCheckpointBeforeADamagedOne) {
  TestRun whole, damaged;
  whole.train();
  damaged.config.run.keep_last = 3;
  damaged.train();
  {
    std::fstream file(damaged.config.run.out + "/checkpoints/step-12/tensors.safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(5000);
    file.put('\x55');
  }
  int64_t steps = 0;
  damaged.train({.interrupted = [&] { return ++steps < 0; }});
  EXPECT_EQ(damaged.newest().step(), 12);
  EXPECT_GE(steps, 4) << "it went back to step 8 and repeated four steps";
  expect_same(ending_of(whole).tensors, ending_of(damaged).tensors);
}

TEST(Resume, DropsWhatWasLoggedBeyondTheCheckpoint) {
  TestRun run;
  run.config.run.log_every = 1;
  run.config.run.keep_last = 3;
  run.train();
  std::filesystem::remove_all(run.config.run.out + "/checkpoints/step-12");
  run.train();
  std::ifstream file(run.config.run.out + "/metrics.jsonl");
  std::map<int64_t, int> losses;
  for (std::string line; std::getline(file, line);) {
    const Json json = Json::parse(line);
    losses[json["step"].get<int64_t>()] += json.contains("loss");
  }
  EXPECT_EQ(losses.size(), 12u);
  for (const auto& [step, count] : losses) EXPECT_EQ(count, 1) << "step " << step;
}

TEST(Resume, RefusesAnotherModelAndAnotherOptimizer) {
  TestRun run;
  run.train();
  run.config.model.width = 64;
  expect_error(Code::kMismatch, "model.width is 64, was 32", [&] { run.trainer(); });
  run.config.model.width = 32;
  run.config.optim.kind = "lamb";
  expect_error(Code::kMismatch, "optim.kind is", [&] { run.trainer(); });
  std::filesystem::remove(run.config.run.out + "/config.toml");  // then the tensors themselves tell
  run.config.optim.kind = "muon";
  run.config.model.layers = 3;
  expect_error(Code::kMismatch, "layers.2", [&] { run.trainer(); });
}

TEST(Resume, TellsAnotherOptimizerByItsTensorsToo) {
  TestRun run;
  run.train();
  std::filesystem::remove(run.config.run.out + "/config.toml");
  run.config.optim.kind = "muon";  // needs fewer tensors, all of which are there
  expect_error(Code::kMismatch, "another model or optimizer", [&] { run.trainer(); });
}

TEST(Resume, SaysThatTheDataHasChanged) {
  const TestShards shards{.vocab_hash = 5};
  TestRun run("gpt2", 2, shards);
  run.train();
  const std::string shard = run.folder / "data/a.tokens";
  CollectingLog log;
  Context ctx{run.pool, log, run.ctx.isa, nullptr};
  prepare_training(ctx, run.config);
  EXPECT_TRUE(log.lines.empty()) << log.lines[0];
  write_test_shards(shard, {.seed = 8, .vocab_hash = 5});
  prepare_training(ctx, run.config);
  ASSERT_EQ(log.lines.size(), 1u);
  EXPECT_NE(log.lines[0].find("resuming with other data"), std::string::npos) << log.lines[0];
  write_test_shards(shard, {.vocab_hash = 6});
  expect_error(Code::kMismatch, "another tokenizer", [&] { run.trainer(); });
}

TEST(Resume, NeverAndAPathSayWhatTheyMean) {
  TestRun run;
  run.config.run.keep_last = 3;
  run.train();
  run.config.run.resume = "never";
  expect_error(Code::kUsage, "holds checkpoints of an earlier run", [&] { run.trainer(); });
  run.config.run.resume = run.config.run.out + "/checkpoints/step-4";
  run.config.run.out = run.folder / "branch";
  EXPECT_EQ(run.trainer()->state().step, 4);
  run.config.run.resume = run.folder / "nowhere";
  expect_error(Code::kNotFound, "nowhere", [&] { run.trainer(); });
}

TEST(Resume, AFinishedRunHasNothingLeftToDo) {
  TestRun run;
  run.train();
  const Snapshot before = ending_of(run).tensors;
  EXPECT_EQ(run.train().steps, 12);
  expect_same(before, ending_of(run).tensors);
}

TEST(Resume, OneRunFolderHasOneTrainer) {
  TestRun run;
  const auto first = run.trainer();
  expect_error(Code::kUsage, "another process trains", [&] { run.trainer(); });
}

}  // namespace
}  // namespace espalier
