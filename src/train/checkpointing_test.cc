#include "train/checkpointing.h"

#include "base/error.h"
#include "base/json_value.h"
#include "base/rng.h"
#include "formats/test_folder.h"

namespace espalier {
namespace {

/// Three groups of tensors, large enough for several pieces each.
struct Tensors {
  explicit Tensors(int threads = 2) : pool(threads) {
    for (int64_t i = 0; i < 3; ++i) {
      weights.emplace_back(DType::kF32, Shape{1'500'000 + i});
      moments.emplace_back(DType::kF32, Shape{1'500'000 + i});
    }
    set(1);
  }
  void set(float value) {
    for (size_t g = 0; g < 3; ++g) set_group(g, value);
  }
  void set_group(size_t g, float value) {
    for (Tensor* t : {&weights[g], &moments[g]})
      std::fill(t->as<float>(), t->as<float>() + t->size(), value + float(g));
  }
  std::vector<CheckpointGroup> groups() {
    std::vector<CheckpointGroup> list;
    for (size_t g = 0; g < 3; ++g) {
      const std::string name = std::to_string(g);
      list.push_back({{"w" + name, DType::kF32, weights[g].shape(), weights[g].data()},
                      {"m" + name, DType::kF32, moments[g].shape(), moments[g].data()}});
    }
    return list;
  }
  ThreadPool pool;
  Context ctx{pool, silent_log(), Isa::kReference, nullptr};
  std::vector<Tensor> weights, moments;
};

CheckpointJob job_of(int64_t step, int keep_last = 10, std::set<int64_t> keep = {}) {
  return {
      .step = step, .state = std::make_shared<const Json>(Json{{"step", step}}), .keep_last = keep_last, .keep = keep};
}

/// Every number of the checkpoint is `value` + its group.
void expect_saved(const std::string& folder, int64_t step, float value) {
  const Checkpoint c = Checkpoint::open(folder + "/step-" + std::to_string(step));
  EXPECT_EQ(c.state()["step"], step);
  for (const std::string& name : c.tensors().names()) {
    const Tensor t = c.tensors().tensor(name);
    const float expected = value + float(name[1] - '0');
    for (int64_t i = 0; i < t.size(); ++i) ASSERT_EQ(t.as<float>()[i], expected) << name << " " << i;
  }
}

TEST(CheckpointSaver, SavesWhatWasThereBeforeTheUpdate) {
  TestFolder folder;
  for (const int threads : {1, 3}) {
    Tensors t(threads);
    CheckpointSaver saver(t.ctx, folder.path(), t.groups(), true);
    for (int64_t step = 1; step <= 4; ++step) {
      t.set(float(10 * step));
      saver.begin(job_of(step));
      for (size_t g = 0; g < 3; ++g) {  // the optimizer's sweep, at once
        saver.before_update(g);
        t.set_group(g, -1);
      }
    }
    saver.finish();
    for (int64_t step = 1; step <= 4; ++step) expect_saved(folder.path(), step, float(10 * step));
    EXPECT_GT(saver.take_stall_ms(), 0);
    EXPECT_EQ(saver.take_stall_ms(), 0);
  }
}

TEST(CheckpointSaver, SavesAtOnceWithoutABuffer) {
  TestFolder folder;
  Tensors t;
  CheckpointSaver saver(t.ctx, folder.path(), t.groups(), false);
  EXPECT_EQ(saver.buffer_bytes(), 0);
  saver.before_update(0);
  saver.save_now(job_of(7));
  expect_saved(folder.path(), 7, 1);
}

TEST(CheckpointSaver, KeepsTheLastAndTheBest) {
  TestFolder folder;
  Tensors t;
  CheckpointSaver saver(t.ctx, folder.path(), t.groups(), true);
  for (int64_t step = 1; step <= 5; ++step) saver.begin(job_of(step, 2, {2}));
  saver.finish();
  std::vector<int64_t> steps;
  for (const CheckpointEntry& entry : find_checkpoints(folder.path())) steps.push_back(entry.step);
  EXPECT_EQ(steps, (std::vector<int64_t>{2, 4, 5}));
}

TEST(CheckpointSaver, AnErrorOfTheWriterComesUpAtTheNextSaveOrTheEnd) {
  TestFolder folder;
  Tensors t;
  write_file_atomic(folder / "checkpoints", "a file where a folder should be");
  CheckpointSaver saver(t.ctx, folder / "checkpoints", t.groups(), true);
  saver.begin(job_of(1));
  EXPECT_THROW(saver.begin(job_of(2)), Error);
  saver.begin(job_of(3));
  EXPECT_THROW(saver.finish(), Error);
  saver.finish();  // told once
}

}  // namespace
}  // namespace espalier
