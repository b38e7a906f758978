#include "formats/checkpoint.h"

#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "base/json_value.h"
#include "base/rng.h"
#include "formats/test_folder.h"

namespace espalier {
namespace {

/// Saves a checkpoint whose contents follow from its step.
std::string save(const std::string& checkpoints, int64_t step, int64_t elements = 100) {
  std::vector<float> w(static_cast<size_t>(elements), float(step));
  std::vector<bf16> h(7, bf16(float(step)));
  const CheckpointTensor tensors[] = {{"h", DType::kBF16, {7}, h.data()},
                                      {"w", DType::kF32, {elements}, w.data()},
                                      {"none", DType::kF32, {0}, nullptr}};
  return write_checkpoint(checkpoints, step, tensors, Json{{"step", step}, {"note", "x"}});
}

void expect_contents(const Checkpoint& checkpoint, int64_t step) {
  EXPECT_EQ(checkpoint.step(), step);
  EXPECT_EQ(checkpoint.state()["step"], step);
  const Tensor w = checkpoint.tensors().tensor("w");
  for (int64_t i = 0; i < w.size(); ++i) ASSERT_EQ(w.as<float>()[i], float(step));
  EXPECT_EQ(float(checkpoint.tensors().tensor("h").as<bf16>()[6]), float(bf16(float(step))));
}

std::vector<int64_t> steps_of(const std::string& checkpoints) {
  std::vector<int64_t> steps;
  for (const CheckpointEntry& entry : find_checkpoints(checkpoints)) steps.push_back(entry.step);
  return steps;
}

void flip_byte(const std::string& path, size_t at) {
  std::string bytes = read_file(path);
  bytes[at % bytes.size()] ^= 0x10;
  put_file(path, bytes);
}

TEST(Checkpoint, KeepsTensorsAndState) {
  const TestFolder folder;
  EXPECT_FALSE(newest_valid_checkpoint(folder / "none", silent_log()));
  EXPECT_EQ(save(folder / "checkpoints", 7), folder / "checkpoints/step-7");
  save(folder / "checkpoints", 30);
  expect_contents(Checkpoint::open(folder / "checkpoints/step-7"), 7);
  expect_contents(*newest_valid_checkpoint(folder / "checkpoints", silent_log()), 30);
  EXPECT_EQ(steps_of(folder / "checkpoints"), (std::vector<int64_t>{7, 30}));
}

TEST(Checkpoint, AStepThatIsSavedAgainIsReplaced) {
  const TestFolder folder;
  save(folder.path(), 5, 10);
  save(folder.path(), 5, 2000);
  const auto newest = newest_valid_checkpoint(folder.path(), silent_log());
  expect_contents(*newest, 5);
  EXPECT_EQ(newest->tensors().tensor("w").size(), 2000);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(Checkpoint, PruningKeepsTheNewestAndTheChosen) {
  const TestFolder folder;
  for (int64_t step : {1, 2, 10, 11, 12}) save(folder.path(), step);
  std::filesystem::create_directories(folder / ".step-99.tmp/x");
  prune_checkpoints(folder.path(), 2, {2});
  EXPECT_EQ(steps_of(folder.path()), (std::vector<int64_t>{2, 11, 12}));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 3);
  // A damaged one does not count among those that are kept.
  std::filesystem::remove(folder / "step-12/manifest.json");
  prune_checkpoints(folder.path(), 2);
  EXPECT_EQ(steps_of(folder.path()), (std::vector<int64_t>{2, 11}));
}

TEST(Checkpoint, DamageAnywhereFallsBackToTheOneBefore) {
  for (const char* file : {"tensors.safetensors", "state.json", "manifest.json"}) {
    for (int how = 0; how < 3; ++how) {
      const TestFolder folder;
      save(folder.path(), 1);
      const std::string path = save(folder.path(), 2) + "/" + file;
      if (how == 0) std::filesystem::remove(path);
      if (how == 1) std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
      if (how == 2) flip_byte(path, 60);
      CollectingLog log;
      const auto newest = newest_valid_checkpoint(folder.path(), log);
      ASSERT_TRUE(newest) << file << ", damage " << how;
      expect_contents(*newest, 1);
      ASSERT_EQ(log.lines.size(), 1u);
      EXPECT_NE(log.lines[0].find("step-2"), std::string::npos) << log.lines[0];
    }
  }
}

TEST(Checkpoint, WhereNoneIsWholeTheRunDoesNotBeginAnewWithoutAWord) {
  const TestFolder folder;
  EXPECT_FALSE(newest_valid_checkpoint(folder / "nothing", silent_log()).has_value());
  EXPECT_FALSE(newest_valid_checkpoint(folder.path(), silent_log()).has_value());
  for (const int64_t step : {1, 2}) flip_byte(save(folder.path(), step) + "/tensors.safetensors", 60);
  CollectingLog log;
  expect_error(Code::kBadData, "none of its 2 checkpoints is whole",
               [&] { newest_valid_checkpoint(folder.path(), log); });
  EXPECT_EQ(log.lines.size(), 2u);
}

TEST(Checkpoint, NoFlippedByteOfTheTensorsIsMissed) {
  const TestFolder folder;
  save(folder.path(), 1, 10);
  const std::string path = folder / "step-1/tensors.safetensors";
  const size_t bytes = read_file(path).size();
  for (size_t at = 0; at < bytes; ++at) {
    flip_byte(path, at);
    EXPECT_THROW(Checkpoint::open(folder / "step-1"), Error) << "byte " << at;
    flip_byte(path, at);
  }
  EXPECT_NO_THROW(Checkpoint::open(folder / "step-1"));
}

TEST(Checkpoint, ManifestsThatLieAreRefused) {
  const auto refuse = [](Code code, const std::string& part, const std::string& text) {
    expect_error(code, part, [&] { parse_checkpoint_manifest(text, "manifest.json"); });
  };
  const auto manifest = [](const std::string& file) {
    return R"({"format":"espalier-checkpoint","version":1,"step":1,"files":[)" + file + "]}";
  };
  const std::string good = manifest(R"({"name":"a","bytes":3,"xxh3":"00000000000000ff"})");
  EXPECT_EQ(parse_checkpoint_manifest(good, "m").files.at(0).checksum, 255u);
  refuse(Code::kBadData, "not the manifest", R"({"format":"other"})");
  refuse(Code::kUnsupported, "version 2", R"({"format":"espalier-checkpoint","version":2})");
  refuse(Code::kBadData, "no list of files", R"({"format":"espalier-checkpoint","version":1,"step":1,"files":3})");
  refuse(Code::kBadData, "a file '../a'", manifest(R"({"name":"../a","bytes":3,"xxh3":"00000000000000ff"})"));
  refuse(Code::kBadData, "of -3 bytes", manifest(R"({"name":"a","bytes":-3,"xxh3":"00000000000000ff"})"));
  refuse(Code::kBadData, "16 hexadecimal", manifest(R"({"name":"a","bytes":3,"xxh3":"ff"})"));
  refuse(Code::kBadData, "16 hexadecimal", manifest(R"({"name":"a","bytes":3,"xxh3":"00000000000000fg"})"));
  const TestFolder folder;
  save(folder.path(), 1);
  std::filesystem::rename(folder / "step-1", folder / "step-2");
  expect_error(Code::kBadData, "manifest is that of step 1", [&] { Checkpoint::open(folder / "step-2"); });
  EXPECT_TRUE(find_checkpoints(folder.path()).empty());
}

/// Saves steps from `first` on for as long as it lives, and tells `pipe` each that is done.
[[noreturn]] void save_forever(const std::string& checkpoints, int64_t first, int pipe) {
  for (int64_t step = first;; ++step) {
    save(checkpoints, step, 1 + 5000 * (step % 7));
    prune_checkpoints(checkpoints, 2);
    if (::write(pipe, &step, sizeof step) != sizeof step) ::_exit(1);
  }
}

/// Kills a writer `after_us` after it began; returns the last step that it reported, or -1.
int64_t kill_a_writer(const std::string& checkpoints, int64_t first, int64_t after_us) {
  int pipe[2];
  if (::pipe(pipe) != 0) return -1;
  const pid_t child = ::fork();
  if (child == 0) save_forever(checkpoints, first, pipe[1]);
  ::close(pipe[1]);
  ::usleep(useconds_t(after_us));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  int64_t step = -1, last = -1;
  while (::read(pipe[0], &step, sizeof step) == sizeof step) last = step;
  ::close(pipe[0]);
  return last;
}

// 20 kills, or 100 where soaks run whole (ESP_SOAK_SCALE=1): whatever was reported as saved is there, whole, and
// nothing newer is half.
TEST(Checkpoint, KillingTheWriterAtAnyMomentLeavesAWholeCheckpoint) {
  const TestFolder folder;
  const char* scale = std::getenv("ESP_SOAK_SCALE");
  const int rounds = std::max(20, int(100 * (scale ? std::atof(scale) : 0)));
  const Rng rng(1, Purpose::kTest);
  int64_t saved = -1, next = 0;
  for (int round = 0; round < rounds; ++round) {
    const int64_t reported = kill_a_writer(folder.path(), next, 500 + int64_t(rng.below(uint64_t(round), 40'000)));
    if (reported >= 0) saved = reported;
    CollectingLog log;
    const auto newest = newest_valid_checkpoint(folder.path(), log);
    EXPECT_TRUE(log.lines.empty()) << log.lines[0];
    ASSERT_TRUE(newest || saved < 0) << "step " << saved << " was saved and is gone";
    if (!newest) continue;
    EXPECT_GE(newest->step(), saved);
    expect_contents(*newest, newest->step());
    next = newest->step() + 1;
    saved = newest->step();
  }
  EXPECT_GT(saved, 0) << "no writer lived long enough to save anything";
}

void expect_full_disk_is_survived(const std::string& checkpoints) {
  try {
    save(checkpoints, 2, 1 << 20);
    ADD_FAILURE() << "four megabytes were written";
  } catch (const Error& e) {
    EXPECT_TRUE(e.code() == Code::kNoSpace || e.code() == Code::kIo) << e.what();
    EXPECT_NE(std::string(e.what()).find(checkpoints + "/.step-2.tmp"), std::string::npos) << e.what();
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(checkpoints), {}), 1);
  expect_contents(*newest_valid_checkpoint(checkpoints, silent_log()), 1);
}

TEST(Checkpoint, AFileSizeLimitLeavesTheOldCheckpoints) {
  const TestFolder folder;
  save(folder.path(), 1);
  rlimit old{};
  ::getrlimit(RLIMIT_FSIZE, &old);
  ::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1 << 20, old.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  expect_full_disk_is_survived(folder.path());
  ::setrlimit(RLIMIT_FSIZE, &old);
}

TEST(Checkpoint, AFullDiskIsNoSpaceAndLeavesTheOldCheckpoints) {
  const TestFolder folder;
  if (::mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=1m") != 0)
    GTEST_SKIP() << "a small disk needs the right to mount: " << std::strerror(errno);
  std::filesystem::create_directories(folder / "checkpoints");
  save(folder / "checkpoints", 1);
  expect_error(Code::kNoSpace, "No space left", [&] { save(folder / "checkpoints", 2, 1 << 20); });
  expect_full_disk_is_survived(folder / "checkpoints");
  ::umount(folder.path().c_str());
}

}  // namespace
}  // namespace espalier
