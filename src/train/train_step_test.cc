// What one step computes: the loss, its normalisation, the guard's refusal, and what must not change it.
#include "train/train_step.h"

#include <cmath>
#include <numeric>

#include "formats/safetensors.h"
#include "models/golden_model.h"
#include "models/init.h"
#include "models/load.h"
#include "train/test_run.h"

namespace espalier {
namespace {

/// A decoder, its optimizer and its step, as the trainer builds them.
struct Bench {
  Bench(Context& context, const TrainConfig& c, int64_t vocab, DType dtype = DType::kF32)
      : ctx(context),
        model(arch_of(c.model, vocab, c.data.context), one_process_mesh(), dtype, true),
        optimizer(model, c.optim),
        guard(c.run.skip_limit, c.run.spike_z),
        step(ctx, model, optimizer, guard,
             {.mesh = one_process_mesh(),
              .dropout = c.model.dropout,
              .seed = 3,
              .recompute = c.compute.recompute,
              .clip = c.optim.clip}) {
    initialise(ctx, model, 5, 0.2);
  }
  Context& ctx;
  Decoder model;
  Optimizer optimizer;
  Guard guard;
  TrainStep step;
};

std::vector<double> some_losses(TestRun& run, int steps = 6, DType dtype = DType::kF32) {
  Bench bench(run.ctx, run.config, 61, dtype);
  const TokenDataset data = TokenDataset::open(run.config.data.train);
  DataLoader loader(data, {.shape = {.sequences = run.config.data.batch,
                                     .context = run.config.data.context,
                                     .micro_batches = run.config.data.accumulate,
                                     .pack_documents = run.config.data.pack_documents}});
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i) losses.push_back(bench.step.run(loader.next(), i, 1).loss);
  return losses;
}

// Losses of ten AdamW steps against PyTorch's (tools/make_model_golden.py): forward, backward, clip and update at once.
// f32 sums in another order differ by about 1e-6 a step; ten steps at a rate of 0.01 carry that on, 1e-4 bounds it.
void expect_golden_losses(const std::string& name) {
  SCOPED_TRACE(name);
  const std::string folder = golden_folder(name);
  const auto golden = SafetensorsFile::open(folder + "/golden.safetensors");
  const Tensor ids = golden.tensor("ids"), losses = golden.tensor("losses");
  const int64_t sequences = ids.shape()[0], t = ids.shape()[1];
  TestFolder data;
  {
    // Each row as a document. A sample's successor is not its own: one more token ends the row, and is no target.
    TokenShardWriter writer(data / "a.tokens", {.vocab_size = 61});
    for (int64_t s = 0; s < sequences; ++s) writer.append({ids.as<int32_t>() + s * t, size_t(t)});
    writer.append(std::vector<int32_t>{0});
    writer.finish();
  }
  const TokenDataset dataset = TokenDataset::open(data.path());
  ThreadPool pool(2);
  Context ctx{pool, silent_log(), choose_isa(), nullptr};
  auto model = load_model(ctx, one_process_mesh(), folder, {.dtype = DType::kF32, .train = true});
  TrainingBatch batch({.sequences = sequences, .context = t});
  for (int64_t s = 0; s < sequences; ++s) batch.fill(s, dataset, s * t);
  batch.count_targets();
  ASSERT_EQ(batch.target_count(), sequences * (t - 1));
  OptimConfig optim;
  optim.lr = 1e-2;
  optim.beta1 = 0.9, optim.beta2 = 0.95, optim.eps = 1e-5, optim.weight_decay = 0.1;
  ASSERT_EQ(golden.metadata().at("lr"), "0.01");
  ASSERT_EQ(golden.metadata().at("betas"), "(0.9, 0.95)");
  ASSERT_EQ(golden.metadata().at("eps"), "1e-05");
  Optimizer optimizer(*model, optim);
  Guard guard(1, 0);
  TrainStep step(ctx, *model, optimizer, guard, {.mesh = one_process_mesh(), .clip = 1});
  for (int64_t i = 0; i < losses.size(); ++i) {
    const double expected = losses.as<float>()[i];
    EXPECT_NEAR(step.run(batch, i, 1).loss, expected, 1e-4 * expected) << "step " << i;
  }
}

TEST(TrainStep, TenLossesAreThoseOfPyTorch) {
  for (const std::string& name : golden_names()) expect_golden_losses(name);
}

TEST(TrainStep, AccumulatedMicroBatchesAreOneLargeBatch) {
  TestRun run;
  run.config.data.batch = 8;
  const std::vector<double> one = some_losses(run);
  run.config.data.batch = 2;
  run.config.data.accumulate = 4;
  const std::vector<double> four = some_losses(run);
  // Documents end at other places in each micro-batch: a mean of means would be off by percents. What remains is the
  // order of f32 sums, amplified over six steps.
  for (size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(four[i], one[i], 1e-5 * one[i]) << "step " << i;
}

TEST(TrainStep, RecomputationChangesNoBit) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    TestRun run("llama");
    run.config.model.dropout = 0.1;
    const std::vector<double> kept = some_losses(run, 6, dtype);
    run.config.compute.recompute = true;
    EXPECT_EQ(some_losses(run, 6, dtype), kept);
  }
}

TEST(TrainStep, TheNumberOfThreadsChangesNoBit) {
  for (const char* family : {"gpt2", "llama"})
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      TestRun one(family, 1), three(family, 3);
      one.config.model.width = three.config.model.width = 64;
      EXPECT_EQ(some_losses(one, 6, dtype), some_losses(three, 6, dtype)) << family;
    }
}

TEST(TrainStep, DropoutTrainsAndDependsOnTheStep) {
  TestRun run;
  const std::vector<double> without = some_losses(run);
  run.config.model.dropout = 0.2;
  const std::vector<double> with = some_losses(run);
  EXPECT_NE(with, without);
  EXPECT_EQ(some_losses(run), with) << "the same masks each time";
}

// A document's loss alone and behind another one in the same row: rows see their own document only, from position 0.
TEST(TrainStep, APackedDocumentIsWorthWhatItIsAlone) {
  for (const char* family : {"gpt2", "llama"}) {
    TestRun run(family);
    TestFolder data;
    std::vector<int32_t> first(11), second(14);
    std::iota(first.begin(), first.end(), 3);
    std::iota(second.begin(), second.end(), 20);
    TokenShardWriter writer(data / "a.tokens", {.vocab_size = 61});
    for (const auto& document : {first, second, std::vector<int32_t>{0}}) writer.append(document);
    writer.finish();
    const TokenDataset dataset = TokenDataset::open(data.path());
    Bench bench(run.ctx, run.config, 61);
    const auto losses_of = [&](int64_t begin, int64_t length) {
      TrainingBatch batch({.sequences = 1, .context = length});
      batch.fill(0, dataset, begin);
      std::vector<float> losses(static_cast<size_t>(length));
      BufferPool pool;
      Tape eval(run.ctx, pool, DType::kF32, TapeMode::kEval);
      bench.model.loss(eval, batch.micro_batch(0), batch.targets(0), 1, losses.data());
      return losses;
    };
    const std::vector<float> packed = losses_of(0, 25), alone = losses_of(11, 14);
    for (size_t i = 0; i < alone.size(); ++i)
      EXPECT_NEAR(packed[11 + i], alone[i], 1e-5 * (1 + alone[i])) << family << " row " << i;
    EXPECT_EQ(packed[10], 0) << "the first document's last token has no successor to learn";
  }
}

TEST(TrainStep, ARefusedStepChangesNothingAndNamesTheTensor) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    TestRun run;
    Bench bench(run.ctx, run.config, 61, dtype);
    const TokenDataset data = TokenDataset::open(run.config.data.train);
    DataLoader loader(data, {.shape = {.sequences = 4, .context = 32}});
    bench.step.run(loader.next(), 0, 1);
    const Snapshot before = snapshot(bench.optimizer);
    const auto copies = [&] {
      std::vector<uint16_t> all;
      for (Param& p : bench.model.params())
        if (p.compute_copy) {
          const auto* bits = static_cast<const uint16_t*>(p.compute_copy.data());
          all.insert(all.end(), bits, bits + p.size());
        }
      return all;
    };
    const std::vector<uint16_t> copies_before = copies();

    const double loss = *bench.step.forward_backward(loader.next(), 1);
    Param* spoilt = bench.model.find("layers.1.ffn.up.weight");
    spoilt->grad.as<float>()[77] = std::numeric_limits<float>::quiet_NaN();
    StepResult result = bench.step.judge_and_update(loss, 1, [](size_t) { FAIL() << "an update began"; });
    EXPECT_EQ(result.verdict, Verdict::kNotFinite);
    EXPECT_NE(bench.step.first_bad_tensor().find("layers.1.ffn.up.weight"), std::string::npos)
        << bench.step.first_bad_tensor();
    result = bench.step.judge_and_update(std::numeric_limits<double>::infinity(), 1, [](size_t) { FAIL(); });
    EXPECT_EQ(result.verdict, Verdict::kNotFinite);
    expect_same(before, snapshot(bench.optimizer));
    EXPECT_EQ(copies(), copies_before);
    EXPECT_EQ(bench.optimizer.updates(), 1);
    EXPECT_EQ(bench.guard.skipped(), 2);
    EXPECT_EQ(bench.step.run(loader.next(), 2, 1).verdict, Verdict::kGood) << "and it goes on";
  }
}

}  // namespace
}  // namespace espalier
