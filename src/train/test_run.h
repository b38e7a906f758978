// For the tests of this folder: a small run on synthetic shards, in a folder of its own.
#pragma once
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "train/test_data.h"
#include "train/trainer.h"

namespace espalier {

inline TrainConfig tiny_config(const TestFolder& folder, const std::string& family = "gpt2") {
  TrainConfig c;
  c.run.out = folder / "run";
  c.run.max_steps = 12;
  c.run.log_every = c.run.save_every = 4;
  c.run.eval_every = 0;
  c.model.family = family;
  c.model.layers = 2;
  c.model.width = 32;
  c.model.heads = 4;
  c.model.kv_heads = family == "llama" ? 2 : 0;
  c.data.train = folder / "data";
  c.data.batch = 4;
  c.data.context = 32;
  c.optim.lr = 3e-3;
  c.optim.warmup_steps = 3;
  c.compute.dtype = "f32";
  c.compute.peak_gflops = -1;
  return c;
}

/// Weights and moments by the names that checkpoints give them.
using Snapshot = std::map<std::string, std::vector<float>>;

struct TestRun {
  explicit TestRun(const std::string& family = "gpt2", int threads = 2, const TestShards& shards = {})
      : pool(threads), config(tiny_config(folder, family)) {
    std::filesystem::create_directories(folder / "data");
    write_test_shards(folder / "data/a.tokens", shards);
    // Large enough for kernels to cut it into tasks; small enough for every ISA's reference.
    ctx.isa = choose_isa();
  }

  std::unique_ptr<Trainer> trainer(TrainHooks hooks = {}) {
    return std::make_unique<Trainer>(ctx, one_process_mesh(), prepare_training(ctx, config), std::move(hooks));
  }
  /// Trains to the end of the config.
  TrainOutcome train(TrainHooks hooks = {}) { return trainer(std::move(hooks))->run(); }

  /// Trains until Ctrl-C comes after `stop` steps. The schedule does not know of it.
  TrainOutcome train_until(int64_t stop) {
    Trainer* self = nullptr;
    const auto made = trainer({.interrupted = [&] { return self && self->state().step >= stop; }});
    self = made.get();
    return made->run();
  }

  /// The newest checkpoint of the run folder.
  Checkpoint newest() {
    auto checkpoint = newest_valid_checkpoint(config.run.out + "/checkpoints", silent_log());
    EXPECT_TRUE(checkpoint.has_value());
    return *checkpoint;
  }

  TestFolder folder;
  ThreadPool pool;
  Context ctx{pool, silent_log(), Isa::kReference, nullptr};
  TrainConfig config;
};

inline Snapshot snapshot(const Checkpoint& checkpoint) {
  Snapshot all;
  for (const std::string& name : checkpoint.tensors().names()) {
    const Tensor t = checkpoint.tensors().tensor(name);
    all[name].assign(t.as<float>(), t.as<float>() + t.size());
  }
  return all;
}

inline Snapshot snapshot(Optimizer& optimizer) {
  Snapshot all;
  for (size_t i = 0; i < optimizer.size(); ++i)
    for (const StateTensor& t : optimizer.state_of(i))
      all[t.name].assign(t.tensor->as<float>(), t.tensor->as<float>() + t.tensor->size());
  return all;
}

/// Equal bit for bit, and names the first tensor that is not.
inline void expect_same(const Snapshot& a, const Snapshot& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, values] : a) {
    const auto other = b.find(name);
    ASSERT_NE(other, b.end()) << name;
    ASSERT_EQ(values.size(), other->second.size()) << name;
    ASSERT_EQ(std::memcmp(values.data(), other->second.data(), 4 * values.size()), 0) << name << " differs";
  }
}

}  // namespace espalier
