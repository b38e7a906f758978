// `bench decode`, `bench prefill` and `bench verify`: a model's passes over one token, over a prompt, and over the few
// tokens that speculation verifies, by themselves: no sampling, no server.
#include "bench/bench.h"
#include "bench/median.h"
#include "bench/serve_rig.h"
#include "kernels/peak.h"

namespace espalier {
namespace {

constexpr int64_t kContext = 32, kGenerated = 128, kPrompt = 512;

/// Tokens a second of `kGenerated` passes over one token each, behind a context of `kContext`.
double decode_rate(ServeRig& rig, bool quick) {
  rig.truncate(0);
  rig.pass(kContext, 1);
  const int64_t count = quick ? kGenerated / 8 : kGenerated;
  double seconds = 0;
  for (int64_t i = 0; i < count; ++i) seconds += rig.pass(1, 1);
  return double(count) / seconds;
}

double prefill_rate(ServeRig& rig, bool) {
  rig.truncate(0);
  return double(kPrompt) / rig.pass(kPrompt, 1);
}

using Rate = double (*)(ServeRig&, bool quick);

/// Medians of a rate in all cells.
BenchResult run_rates(Context& ctx, Progress& progress, const BenchOptions& options, const char* name, Rate rate) {
  BenchResult result{.name = name, .unit = "tokens/s"};
  std::vector<double> medians;
  for_each_cell(ctx, options, [&](ServeRig& rig, const std::string& cell) {
    std::vector<double> rates;
    progress.begin(cell, options.repeats, "runs");
    rate(rig, true);  // untimed: pages, scratch memory
    for (int64_t i = 0; i < options.repeats; ++i) {
      rates.push_back(rate(rig, options.quick));
      progress.update(i + 1, "");
    }
    progress.end();
    medians.push_back(median(rates));
    result.cells.push_back({cell, medians.back()});
    if (rate != decode_rate) return;
    const double limit = read_bandwidth_gb_s(rig.context(), options.quick), bytes = rig.weight_bytes();
    const double fraction = medians.back() * bytes / 1e9 / limit;
    result.notes.push_back(fmt::format("{}: {:.0f} MB of weights a token, {:.0f} % of {:.1f} GB/s", cell, bytes / 1e6,
                                       100 * fraction, limit));
    result.limit = limit / (bytes / 1e9);
    result.fraction_of_limit = fraction;
    result.limit_unit = "tokens/s, reading the weights of the last cell at the memory's rate";
  });
  result.value = median(medians);
  return result;
}

BenchResult run_decode(Context& ctx, Progress& progress, const BenchOptions& options) {
  return run_rates(ctx, progress, options, "decode", decode_rate);
}

BenchResult run_prefill(Context& ctx, Progress& progress, const BenchOptions& options) {
  return run_rates(ctx, progress, options, "prefill", prefill_rate);
}

/// Seconds of passes over k tokens with all their logits, each k in turn so that noise meets all alike.
BenchResult run_verify(Context& ctx, Progress& progress, const BenchOptions& options) {
  constexpr int64_t kRows[] = {1, 2, 3, 4, 6, 8, 16};
  BenchResult result{.name = "verify", .unit = "v(4) = time of a 4-token pass / time of one token"};
  std::vector<double> values;
  for_each_cell(ctx, options, [&](ServeRig& rig, const std::string& cell) {
    std::vector<std::vector<double>> times(std::size(kRows));
    const int64_t rounds = options.quick ? 3 : 4 * options.repeats;
    progress.begin(cell, rounds, "rounds");
    rig.truncate(0);
    rig.pass(kContext, 1);
    for (int64_t round = 0; round < rounds; ++round) {
      for (size_t i = 0; i < std::size(kRows); ++i) {
        rig.truncate(kContext);
        times[i].push_back(rig.pass(kRows[i], kRows[i]));
      }
      progress.update(round + 1, "");
    }
    progress.end();
    const double one = median(times[0]);
    result.notes.push_back(fmt::format("{}: {:.2f} ms for one token", cell, 1e3 * one));
    result.cells.push_back({fmt::format("{}, one token, ms", cell), 1e3 * one});
    for (size_t i = 0; i < std::size(kRows); ++i) {
      const double ratio = median(times[i]) / one;
      result.cells.push_back({fmt::format("{}, v({})", cell, kRows[i]), ratio});
      if (kRows[i] == 4) values.push_back(ratio);
    }
  });
  result.value = median(values);
  return result;
}

}  // namespace

extern const Bench kDecodeBench, kPrefillBench, kVerifyBench;
const Bench kDecodeBench = {"decode", "tokens/s of a model, one token a pass (--models)", run_decode};
const Bench kPrefillBench = {"prefill", "tokens/s of reading a prompt of 512 tokens (--models)", run_prefill};
const Bench kVerifyBench = {"verify", "what a pass over k tokens costs beside one token (--models)", run_verify};

}  // namespace espalier
