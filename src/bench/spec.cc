// `bench spec`: tokens a second with and without a draft that guesses ahead, on prompts of code and prose, greedy, and
// what limited the gain. All schedules of one prompt follow each other, so that noise meets them alike.
#include <algorithm>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/file.h"
#include "bench/bench.h"
#include "bench/median.h"
#include "engine/draft_setup.h"
#include "engine/generator.h"
#include "engine/prompt.h"
#include "engine/spec_simulation.h"
#include "formats/hf_folder.h"
#include "models/gguf_tokenizer.h"
#include "models/load.h"

namespace espalier {
namespace {

constexpr const char* kPrompts[] = {
    "def binary_search(items, target):\n    \"\"\"Return the index of target in a sorted list, or -1.\"\"\"\n",
    "Explain in simple words why the sky is blue.\n",
    "class Stack:\n    \"\"\"A last-in first-out container.\"\"\"\n\n    def __init__(self):\n",
    "A short history of the printing press begins in the fifteenth century, when",
    "#include <vector>\n\n// Merge sort of a vector of integers.\nstd::vector<int> merge_sort(std::vector<int> v) {\n",
    "The three main parts of a cell are",
    "SELECT customers.name, SUM(orders.total)\nFROM customers\nJOIN orders ON",
    "Dear team,\n\nI am writing to let you know that the release has been moved to",
    "import csv\n\ndef read_table(path):\n    \"\"\"Read a CSV file into a list of dictionaries.\"\"\"\n",
    "Once upon a time there was a fisherman who lived by the sea with his",
    "function debounce(fn, wait) {\n  // Call fn only after wait milliseconds of silence.\n",
    "To make a good vegetable soup you first need to",
    "fn factorial(n: u64) -> u64 {\n",
    "The difference between a virus and a bacterium is that",
    "class LinkedList:\n    def __init__(self):\n        self.head = None\n\n    def append(self, value):\n",
    "In economics, inflation means",
    "def is_prime(n):\n",
    "Write a list of ten tips for learning a new language:\n1.",
    "package main\n\nimport \"fmt\"\n\n// Print the first ten squares.\nfunc main() {\n",
    "The patient was admitted with chest pain and shortness of breath. On examination",
};

/// One schedule on one machine: a generator with its draft.
struct Schedule {
  std::string name;
  DraftConfig config;
  DraftSetup draft;
  Generator generator;
  std::vector<double> rates;

  Schedule(Context& ctx, Decoder& model, const Tokenizer& tokenizer, std::string given, const DraftConfig& settings)
      : name(std::move(given)), config(settings), draft(ctx, settings, model, tokenizer),
        generator(draft.context(), model, &tokenizer, {.max_batch = 1, .speculation = draft.options()}) {}
};

std::vector<std::pair<std::string, DraftConfig>> schedules(const std::string& draft) {
  const auto with = [&](const char* spec, int64_t guesses, int64_t width, int64_t children) {
    DraftConfig config;
    config.draft = draft;
    config.spec = spec;
    config.guesses = guesses;
    config.width = width;
    config.children = children;
    return config;
  };
  std::vector<std::pair<std::string, DraftConfig>> all = {{"plain", with("off", 1, 1, 1)},
                                                          {"lookup", with("lookup", 7, 1, 1)}};
  if (draft.empty()) return all;
  all.insert(all.end(), {{"auto", with("auto", 7, 1, 1)},
                         {"serial, chain of 4", with("serial", 4, 1, 1)},
                         {"serial, chain of 7", with("serial", 7, 1, 1)},
                         {"serial, tree of 7", with("serial", 7, 2, 2)},
                         {"async, tree of 7", with("async", 7, 2, 2)},
                         {"async, outcomes of a chain of 4", with("outcomes", 4, 1, 1)}});
  return all;
}

std::string limits_of(const Schedule& s) {
  const SpeculationCounters& c = s.generator.speculation().counters();
  if (c.passes == 0) return fmt::format("{}: no pass had guesses", s.name);
  const double passes = double(c.passes), one = c.plain_passes > 0 ? c.plain_s / double(c.plain_passes) : 0;
  const DrafterCounters d = s.draft.drafter()->counters();
  const double verify = c.verify_s / passes, wait = c.draft_s / passes;
  return fmt::format("{}: {:.2f} tokens a pass of {:.1f} guesses; verifying {:.1f} ms ({:.1f} for one token), waiting "
                     "for guesses {:.1f} ms ({:.0f} % of the round); the draft's pass {:.1f} ms, {:.1f} a round, busy "
                     "{:.0f} % of the time; {:.1f} guesses kept after a hit, {} hits, {} misses",
                     s.name, c.accepted_length(), double(c.guessed) / passes, 1e3 * verify, 1e3 * one, 1e3 * wait,
                     100 * wait / (verify + wait), d.passes > 0 ? 1e3 * d.busy_s / double(d.passes) : 0,
                     double(d.passes) / passes, 100 * d.busy_s / (c.verify_s + c.draft_s + c.plain_s),
                     d.hits > 0 ? double(d.kept_nodes) / double(d.hits) : 0, d.hits, d.misses);
}

/// What the draft was judged by, as kinds of places for the simulator.
std::vector<SpecPlace> places_of(const DrafterCounters& d, int64_t children) {
  std::vector<SpecPlace> places;
  for (const PlaceCounters& counted : d.places) {
    if (counted.judged == 0) continue;
    SpecPlace place{.share = double(counted.judged) / double(d.judged()), .ranks = {}};
    for (size_t rank = 0; rank < size_t(std::min<int64_t>(children, int64_t(counted.right.size()))); ++rank)
      place.ranks.push_back(double(counted.right[rank]) / double(counted.judged));
    places.push_back(std::move(place));
  }
  return places;
}

/// What the simulator makes of a schedule's own costs and acceptance: it should say what was measured.
std::string forecast_of(const Schedule& s, double measured) {
  const SpeculationCounters& c = s.generator.speculation().counters();
  const DrafterCounters d = s.draft.drafter()->counters();
  const bool played = c.passes > 0 && c.plain_passes > 0 && d.passes > 0 && d.judged() > 0;
  if (!played || s.config.spec == "outcomes") return "";  // the simulator knows no outcomes
  SpecPlan plan{.target_s = c.plain_s / double(c.plain_passes), .draft_s = d.busy_s / double(d.passes),
                .places = places_of(d, s.config.children)};
  plan.target_node_s =
      std::max(0.0, (c.verify_s / double(c.passes) - plan.target_s) * double(c.passes) / double(c.guessed));
  plan.async = s.config.spec == "async";
  plan.guesses = s.config.guesses;
  plan.width = s.config.width;
  plan.children = s.config.children;
  plan.steps = s.config.guesses;
  plan.adaptive = true;
  const SpecForecast f = simulate_speculation(plan);
  std::string places;
  for (const SpecPlace& place : plan.places)
    places += fmt::format("{}{:.3f}:{:.3f}", places.empty() ? "" : ",", place.share, fmt::join(place.ranks, "/"));
  return fmt::format("{}: first guesses right {:.3f} of the time; the simulator says {:.1f} tokens/s, {:+.0f} % of "
                     "{:.1f}; {:.2f} tokens a pass, model idle {:.0f} %; --target-ms {:.2f} --target-node-ms {:.2f} "
                     "--draft-ms {:.2f} --places {}", s.name, d.first_right(), f.tokens_per_s,
                     100 * (f.tokens_per_s / measured - 1), measured, f.tokens_a_pass, 100 * f.target_idle,
                     1e3 * plan.target_s, 1e3 * plan.target_node_s, 1e3 * plan.draft_s, places);
}

BenchResult run(Context& ctx, Progress& progress, const BenchOptions& options) {
  const std::string path = is_file(options.model) ? options.model : find_model(options.model);
  const Tokenizer tokenizer = load_tokenizer(path);
  const auto model = load_model(ctx, one_process_mesh(), path, {.blocks = Blocks::kPack});
  std::vector<std::unique_ptr<Schedule>> all;
  for (const auto& [name, config] : schedules(options.draft))
    all.push_back(std::make_unique<Schedule>(ctx, *model, tokenizer, name, config));
  const int64_t tokens = options.quick ? 32 : 256, prompts = options.quick ? 2 : int64_t(std::size(kPrompts));
  progress.begin("speculating", prompts * int64_t(all.size()), "texts");
  for (int64_t i = 0; i < prompts; ++i) {
    std::vector<int32_t> first;
    for (size_t j = 0; j < all.size(); ++j) {
      GenerateRequest request;
      request.prompt = encode_prompt(tokenizer, kPrompts[i]);
      request.max_tokens = tokens;
      request.sampler.temperature = 0;
      request.ignore_eos = true;
      const GenerateResult result = all[j]->generator.generate(std::move(request));
      if (j == 0) first = result.ids;
      if (result.ids != first)
        throw error(Code::kInternal, "bench spec: '{}' wrote another text than plain decoding for prompt {}",
                    all[j]->name, i);
      all[j]->rates.push_back(result.decode_tokens_per_s());
      progress.update(i * int64_t(all.size()) + int64_t(j) + 1, "");
    }
  }
  progress.end();
  BenchResult result{.name = "spec", .unit = "tokens/s"};
  for (const auto& schedule : all) {
    result.cells.push_back({schedule->name, median(schedule->rates)});
    if (schedule->draft.drafter()) result.notes.push_back(limits_of(*schedule));
    if (schedule->draft.drafter())
      if (std::string forecast = forecast_of(*schedule, result.cells.back().value); !forecast.empty())
        result.notes.push_back(std::move(forecast));
    if (schedule->name == "auto" || all.size() == 2) result.value = result.cells.back().value;
  }
  result.notes.push_back(fmt::format("medians over {} prompts of {} new tokens each, the prompt excluded, greedy; "
                                     "every text was that of plain decoding", prompts, tokens));
  return result;
}

}  // namespace

extern const Bench kSpecBench;
const Bench kSpecBench = {"spec", "tokens/s with a draft that guesses ahead (--model, --draft)", run};

}  // namespace espalier
