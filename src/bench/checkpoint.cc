// `bench checkpoint`: how long training stands still for a save of the GPT-2 124M shape (weights and both moments).

#include "base/clock.h"
#include "base/json_value.h"
#include "bench/bench.h"
#include "bench/median.h"
#include "bench/train_rig.h"
#include "kernels/peak.h"
#include "train/train_state.h"

namespace espalier {
namespace {

BenchResult run(Context& ctx, Progress& progress, const BenchOptions& options) {
  TrainShape shape = kGpt2Small;
  if (options.quick) shape.layers = 1;
  const int64_t saves = options.repeats;
  TrainRig rig(ctx, shape, DType::kF32, 2 * saves + 4);
  CheckpointSaver saver(ctx, rig.folder.file("checkpoints"), checkpoint_groups(rig.optimizer), true);
  std::vector<double> plain_ms, saving_ms, stall_ms;
  progress.begin("checkpoint", saves, "saves");
  const auto step_ms = [&](int64_t i) {
    const Stopwatch watch;
    rig.step.run(rig.loader.next(), i, 1, [&](size_t group) { saver.before_update(group); });
    return watch.ms();
  };
  for (int64_t i = 0; i < 2; ++i) step_ms(i);
  for (int64_t i = 0; i < saves; ++i) {
    plain_ms.push_back(step_ms(2 + 2 * i));
    saver.take_stall_ms();
    saver.begin({.step = i + 1, .state = std::make_shared<const Json>(Json::object())});
    saving_ms.push_back(step_ms(3 + 2 * i));
    stall_ms.push_back(saver.take_stall_ms());
    saver.finish();  // so that the next step is plain again
    progress.update(i + 1, fmt::format("{:.1f} ms", stall_ms.back()));
  }
  progress.end();
  BenchResult result{.name = "checkpoint", .value = median(stall_ms), .unit = "ms"};
  result.cells = {{"stall_ms", result.value},
                  {"step_ms", median(plain_ms)},
                  {"step_with_save_ms", median(saving_ms)},
                  {"saved_mb", double(saver.buffer_bytes()) / 1e6}};
  result.notes = {"a snapshot is copied during forward and backward; the stall is what the optimizer waits for it"};
  return result;
}

}  // namespace

extern const Bench kCheckpointBench;
const Bench kCheckpointBench = {"checkpoint", "how long training stands still for a save of the 124M shape", run};

}  // namespace espalier
