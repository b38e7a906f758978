// Benchmarks that `espalier bench NAME` runs: whole-program figures of ours, each with the machine's own limit measured
// in the same run, because machines are shared and noisy. The rivals' side is bench/peers/NAME.sh.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/context.h"
#include "base/progress.h"

namespace espalier {

struct BenchOptions {
  std::string dtype = "auto";
  std::string input;
  std::string tokenizer;
  std::vector<std::string> texts;
  std::string model = "qwen2.5-coder-0.5b";
  std::string draft;
  std::vector<std::string> models;
  int64_t repeats = 3;
  int64_t batch = 0;
  bool recompute = false;
  bool quick = false;
  void visit(Fields& f) {
    f.choice("dtype", dtype, {"auto", "f32", "bf16"}, "compute dtype of the training benchmarks; auto measures");
    f.field("input", input, "text file for prepare and bpe; empty: made up from a seed");
    f.field("tokenizer", tokenizer, "tokenizer.json for prepare; empty: trained on the input");
    f.field("texts", texts, "files for tokenizer, text or JSONL; each is a cell");
    f.field("model", model, "model for tokenizer, and for the serving benchmarks without --models");
    f.field("draft", draft, "the model that guesses, for spec");
    f.field("models", models, "models for decode, prefill and verify; each is a cell");
    f.field("repeats", repeats, "measurements; the median counts", 1, 100);
    f.field("batch", batch, "sequences a step of the training benchmarks; 0: the best of 1, 2 and 4", 0, 1024);
    f.field("recompute", recompute, "train with activation recomputation");
    f.field("quick", quick, "smaller sizes, for a smoke test; not for quoting");
  }
};

/// A figure of one variant (a batch size, a number of threads).
struct BenchCell {
  std::string name;
  double value = 0;
};

struct BenchResult {
  std::string name;
  double value = 0;
  std::string unit;
  double limit = 0;  ///< of this machine, measured in this run; 0: none applies
  std::string limit_unit;
  double fraction_of_limit = 0;
  std::vector<BenchCell> cells;
  std::vector<std::string> notes;  ///< conventions and where the time went, for people
};

struct Bench {
  const char* name;
  const char* summary;
  BenchResult (*run)(Context& ctx, Progress& progress, const BenchOptions& options);
};

/// The array in registry.cc.
std::span<const Bench* const> all_benches();
/// Error kUsage with the nearest name when there is none.
const Bench& find_bench(const std::string& name);

/// One line of JSON with the fields that scripts rely on: name, machine_class, value, unit, limit, fraction_of_limit,
/// cells, notes.
std::string bench_json(const BenchResult& result);

}  // namespace espalier
