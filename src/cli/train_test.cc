// `espalier train` as a process: killed, interrupted, on a full disk, and as large as it said it would be.
#include <signal.h>
#include <sys/resource.h>

#include <thread>

#include "base/json.h"
#include "base/json_value.h"
#include "base/rng.h"
#include "cli/run_program.h"
#include "train/memory_plan.h"
#include "train/test_run.h"

namespace espalier {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

/// How much of a soak's length to run: 1 is whole.
double soak_scale() {
  const char* text = std::getenv("ESP_SOAK_SCALE");
  return text ? std::atof(text) : 0.05;
}

/// A run of some seconds with a save every few steps.
struct ChildRun {
  explicit ChildRun(const std::string& name) {
    std::filesystem::create_directories(folder / "data");
    write_test_shards(folder / "data/a.tokens");
    out = folder / name;
    settings["data.train"] = folder / "data";
  }
  std::vector<std::string> args() const {
    std::vector<std::string> list = {"train", "--run.out=" + out, "--log-level=error"};
    for (const auto& [name, value] : settings) list.push_back("--" + name + "=" + value);
    return list;
  }
  pid_t start() const {
    const std::vector<std::string> all = args();
    std::vector<const char*> argv = {ESP_BINARY};
    for (const std::string& arg : all) argv.push_back(arg.c_str());
    argv.push_back(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
      const int null = ::open("/dev/null", O_RDWR);
      ::dup2(null, 1);
      ::dup2(null, 2);
      ::signal(SIGHUP, SIG_DFL);  // tests that run under nohup have it ignored, and a run respects that
      ::execv(ESP_BINARY, const_cast<char* const*>(argv.data()));
      ::_exit(127);
    }
    return child;
  }
  int64_t newest_step() const {
    const auto checkpoint = newest_valid_checkpoint(out + "/checkpoints", silent_log());
    return checkpoint ? checkpoint->step() : 0;
  }
  Snapshot tensors() const { return snapshot(*newest_valid_checkpoint(out + "/checkpoints", silent_log())); }

  TestFolder folder;
  std::string out;
  std::map<std::string, std::string> settings = {
      {"run.save_every", "4"},  {"run.log_every", "2"},   {"run.eval_every", "0"},      {"model.layers", "1"},
      {"model.width", "32"},    {"model.heads", "4"},     {"data.batch", "4"},          {"data.context", "32"},
      {"data.accumulate", "2"}, {"compute.dtype", "f32"}, {"compute.peak_gflops", "-1"}};
};

/// The exit status, or minus the signal; the greatest resident memory where wanted.
int wait_for(pid_t child, int64_t* peak_bytes = nullptr) {
  int status = 0;
  rusage usage{};
  EXPECT_EQ(::wait4(child, &status, 0, &usage), child);
  if (peak_bytes) *peak_bytes = int64_t(usage.ru_maxrss) * 1024;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void sleep_ms(int64_t ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

TEST(TrainProcess, SurvivesBeingKilledAtAnyMoment) {
  ChildRun whole("whole"), killed("killed");
  const int kills = std::max(3, int(100 * soak_scale()));
  for (ChildRun* run : {&whole, &killed}) run->settings["run.max_steps"] = std::to_string(100 + 80 * kills);
  const Rng rng(uint64_t(kills), Purpose::kTest);
  int64_t done = 0;
  for (int i = 0; i < kills; ++i) {
    const pid_t child = killed.start();
    sleep_ms(40 + int64_t(rng.below(uint64_t(i), 600)));
    ::kill(child, SIGKILL);
    const int status = wait_for(child);
    ASSERT_TRUE(status == -SIGKILL || status == 0) << "it refused to go on: status " << status;
    const int64_t step = killed.newest_step();
    EXPECT_GE(step, done) << "a kill lost a checkpoint that was whole";
    done = step;
  }
  EXPECT_EQ(wait_for(killed.start()), 0);
  EXPECT_EQ(wait_for(whole.start()), 0);
  expect_same(whole.tensors(), killed.tensors());
}

TEST(TrainProcess, CtrlCSavesAndTheSameCommandGoesOn) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    ChildRun run("run");
    run.settings["run.save_every"] = "0";
    run.settings["run.max_steps"] = "1000000";
    const pid_t child = run.start();
    while (!std::filesystem::exists(run.out + "/metrics.jsonl")) sleep_ms(10);
    sleep_ms(200);
    ::kill(child, signal);
    EXPECT_EQ(wait_for(child), code_info(Code::kInterrupted).exit_status);
    EXPECT_GT(run.newest_step(), 0);
    EXPECT_TRUE(std::filesystem::exists(run.out + "/model/model.safetensors"));
    const int64_t step = run.newest_step();
    run.settings["run.max_steps"] = std::to_string(step + 3);
    EXPECT_EQ(wait_for(run.start()), 0);
    EXPECT_EQ(run.newest_step(), step + 3);
  }
}

TEST(TrainProcess, AFullDiskIsOneClearError) {
  // A small file system of its own needs a mount namespace; where the system grants none, there is nothing to test.
  if (std::system("unshare -Urm true 2>/dev/null") != 0) GTEST_SKIP() << "no mount namespaces here";
  ChildRun run("disk");
  std::filesystem::create_directories(run.out);
  std::string command = std::string(ESP_BINARY);
  for (const std::string& arg : run.args()) command += " '" + arg + "'";
  const std::string err = run.folder / "err";
  command =
      "unshare -Urm sh -c \"mount -t tmpfs -o size=300k none '" + run.out + "' && exec " + command + " 2>" + err + "\"";
  const int status = std::system((command + " >/dev/null").c_str());
  EXPECT_EQ(WEXITSTATUS(status), code_info(Code::kNoSpace).exit_status);
  const std::string said = read_file(err);
  EXPECT_NE(said.find("No space left on device"), std::string::npos) << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

TEST(TrainProcess, DryRunSaysWhatItNeedsAndRefusesWhatDoesNotFit) {
  const ChildRun run("dry");
  std::vector<std::string> args = run.args();
  args.push_back("--dry-run");
  ProgramResult r = run_program(args);
  EXPECT_EQ(r.status, 0) << r.err;
  for (const char* part : {"parameters", "FLOPs a token", "weights, f32", "activations", "it fits"})
    EXPECT_NE(r.out.find(part), std::string::npos) << part << " in\n" << r.out;
  EXPECT_FALSE(std::filesystem::exists(run.out)) << "a dry run leaves nothing";

  // The same for a model to continue from: its config.json is enough to refuse it.
  std::filesystem::create_directories(run.folder / "large");
  write_file_atomic(run.folder / "large/config.json",
                    R"({"model_type": "llama", "hidden_size": 8192, "num_hidden_layers": 80,
                        "num_attention_heads": 64, "num_key_value_heads": 8, "intermediate_size": 28672,
                        "vocab_size": 128256, "max_position_embeddings": 8192})");
  args.push_back("--model.init=" + (run.folder / "large"));
  r = run_program(args);
  EXPECT_EQ(r.status, code_info(Code::kNoSpace).exit_status);
  EXPECT_NE(r.err.find("TiB of memory"), std::string::npos) << r.err;
}

TEST(TrainProcess, NeedsTheMemoryThatTheDryRunPredicts) {
  if (kSanitized) GTEST_SKIP() << "sanitizers need memory of their own";
  for (const char* dtype : {"f32", "bf16"}) {
    ChildRun run("memory");
    for (const auto& [name, value] : std::map<std::string, std::string>{{"run.max_steps", "6"},
                                                                        {"run.save_every", "2"},
                                                                        {"model.layers", "6"},
                                                                        {"model.width", "384"},
                                                                        {"model.heads", "6"},
                                                                        {"model.vocab", "8000"},
                                                                        {"data.context", "128"},
                                                                        {"data.accumulate", "1"},
                                                                        {"compute.dtype", dtype},
                                                                        {"threads", "2"}})
      run.settings[name] = value;
    TrainConfig config;
    for (const auto& [name, value] : run.settings)
      if (name != "threads") config_set(name, value, name, ESP_CONFIG(config));
    int64_t peak = 0;
    ASSERT_EQ(wait_for(run.start(), &peak), 0);
    const ArchSpec spec = arch_of(config.model, 8000, config.data.context);
    const double predicted = double(plan_memory(config, spec, parse_dtype(dtype), 2).total());
    EXPECT_NEAR(double(peak), predicted, 0.15 * predicted) << dtype;
  }
}

}  // namespace
}  // namespace espalier
