// `bench prepare` and `bench bpe`: text to token shards, and text to a vocabulary.
#include <filesystem>

#include "base/clock.h"
#include "base/error.h"
#include "bench/bench.h"
#include "bench/median.h"
#include "bench/temporary_folder.h"
#include "kernels/peak.h"
#include "train/prepare.h"

namespace espalier {
namespace {

constexpr int64_t kVocab = 8192;

PrepareConfig config_of(const BenchOptions& options, const std::string& out) {
  PrepareConfig config;
  config.inputs = {options.input};
  config.out = out;
  config.vocab_size = kVocab;
  config.val_fraction = 0;
  config.end_token = false;  // so that the ids are those of the text alone, as the rival counts them
  return config;
}

void check_input(const BenchOptions& options, const char* name) {
  if (options.input.empty())
    throw error(Code::kUsage, "bench {}: say what to read: --input FILE.txt, FILE.jsonl or FOLDER", name);
}

BenchResult run_prepare(Context& ctx, Progress& progress, const BenchOptions& options) {
  check_input(options, "prepare");
  const TemporaryFolder folder;
  std::string tokenizer = options.tokenizer;
  if (tokenizer.empty()) {
    prepare(ctx, progress, config_of(options, folder.file("tokenizer")));
    tokenizer = folder.file("tokenizer");
  }
  BenchResult result{.name = "prepare", .unit = "MB/s", .limit_unit = "MB/s"};
  result.limit = 1e3 * copy_bandwidth_gb_s(ctx, true);
  for (int threads = 1; threads <= ctx.pool.size(); threads *= 2) {
    ThreadPool pool(threads);
    Context own{pool, ctx.log, ctx.isa, {}};
    std::vector<double> rates;
    PrepareResult prepared;
    for (int64_t i = 0; i < options.repeats; ++i) {
      PrepareConfig config = config_of(options, folder.file(fmt::format("{}-{}", threads, i)));
      config.tokenizer = tokenizer;
      const Stopwatch watch;
      prepared = prepare(own, progress, config);
      rates.push_back(double(prepared.bytes) / 1e6 / watch.seconds());
    }
    result.cells.push_back({fmt::format("{} threads", threads), median(rates)});
    if (threads == 1)
      result.notes = {fmt::format("{:.1f} MB in {} files to {} ids, whole command: reading, encoding "
                                  "with a cold cache, writing",
                                  double(prepared.bytes) / 1e6, prepared.files, prepared.train.tokens)};
  }
  result.value = result.cells[0].value;
  result.fraction_of_limit = result.value / result.limit;
  return result;
}

BenchResult run_bpe(Context& ctx, Progress& progress, const BenchOptions& options) {
  check_input(options, "bpe");
  const TemporaryFolder folder;
  std::vector<double> seconds;
  PrepareResult prepared;
  for (int64_t i = 0; i < options.repeats; ++i) {
    prepared = prepare(ctx, progress, config_of(options, folder.file(std::to_string(i))));
    seconds.push_back(prepared.tokenizer_s);
  }
  return {.name = "bpe",
          .value = median(seconds),
          .unit = "s",
          .notes = {fmt::format("vocabulary of {} from {:.1f} MB on {} threads", prepared.vocab_size,
                                double(prepared.bytes) / 1e6, ctx.pool.size())}};
}

}  // namespace

extern const Bench kPrepareBench;
const Bench kPrepareBench = {"prepare", "text to token shards, on one thread and more (--input)", run_prepare};
extern const Bench kBpeBench;
const Bench kBpeBench = {"bpe", "training an 8k byte-level BPE (--input)", run_bpe};

}  // namespace espalier
