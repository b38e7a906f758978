// `espalier plan serve`: what speculation would bring on another machine, from costs and acceptance that were measured
// (`espalier bench spec`) or published.
#include "base/error.h"
#include "base/human.h"
#include "base/json.h"
#include "base/json_value.h"
#include "base/suggest.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "engine/spec_simulation.h"

namespace espalier {

extern const Verb kPlan;

namespace {

struct Options {
  std::string what;
  double target_ms = 40, target_node_ms = 2, draft_ms = 10, draft_node_ms = 0.5, round_ms = 0.1;
  std::vector<std::string> ranks = {"0.75", "0.1", "0.04", "0.02"};
  int64_t guesses = 8, width = 4, children = 4, steps = 4, rounds = 20000;
  bool json = false;
  void visit(Fields& f) {
    f.field("what", what, "serve");
    f.field("target_ms", target_ms, "the model's pass over one token", 1e-6, 1e9);
    f.field("target_node_ms", target_node_ms, "what each guess adds to a pass that verifies", 0, 1e9);
    f.field("draft_ms", draft_ms, "the draft's pass that continues one guess", 1e-6, 1e9);
    f.field("draft_node_ms", draft_node_ms, "what each further guess adds to it", 0, 1e9);
    f.field("round_ms", round_ms, "what each round costs beside passes", 0, 1e9);
    f.field("ranks", ranks, "how often the draft's first guess is right, its second, ...");
    f.field("guesses", guesses, "guesses that a pass verifies", 1, 256);
    f.field("width", width, "guesses that a draft pass continues", 1, 64);
    f.field("children", children, "guesses behind each", 1, 64);
    f.field("steps", steps, "draft passes a round", 1, 64);
    f.field("rounds", rounds, "rounds that are played", 10, 10000000);
    f.field("json", json, "one object");
  }
};

double share_of(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0') throw error(Code::kUsage, "--ranks: '{}' is no number", text);
  return value;
}

SpecPlan plan_of(const Options& o) {
  SpecPlan plan{.target_s = o.target_ms / 1e3,
                .target_node_s = o.target_node_ms / 1e3,
                .draft_s = o.draft_ms / 1e3,
                .draft_node_s = o.draft_node_ms / 1e3,
                .round_s = o.round_ms / 1e3,
                .ranks = {},
                .guesses = o.guesses,
                .width = o.width,
                .children = o.children,
                .steps = o.steps};
  for (const std::string& rank : o.ranks) plan.ranks.push_back(share_of(rank));
  return plan;
}

struct Schedule {
  std::string name;
  SpecForecast forecast;
};

std::vector<Schedule> forecasts(const Options& options) {
  std::vector<Schedule> all;
  SpecPlan plan = plan_of(options);
  SpecPlan chain = plan;
  chain.width = chain.children = 1;
  chain.guesses = std::min(plan.guesses, plan.steps);
  all.push_back({"serial, chain", simulate_speculation(chain, options.rounds)});
  all.push_back({"serial, tree", simulate_speculation(plan, options.rounds)});
  plan.async = true;
  all.push_back({"async, tree", simulate_speculation(plan, options.rounds)});
  return all;
}

int run(Terminal& terminal, std::span<const std::string> args) {
  Options options;
  if (!read_args(terminal, kPlan, args, ESP_CONFIG(options))) return 0;
  if (options.what != "serve") {
    const std::string known[] = {"serve"};
    throw error(Code::kUsage, "unknown plan '{}'{}; there is serve", options.what, did_you_mean(options.what, known));
  }
  OrderedJson object = OrderedJson::object();
  for (const auto& [name, f] : forecasts(options)) {
    if (!options.json)
      terminal.print("{:<14} {:8.1f} tokens/s, {:.2f} x plain; {:.2f} tokens a pass, model idle {:4.1f} %, draft idle "
                     "{:4.1f} %, {:4.1f} % of verdicts in the tree\n",
                     name, f.tokens_per_s, f.tokens_per_s / f.plain_tokens_per_s, f.tokens_a_pass, 100 * f.target_idle,
                     100 * f.draft_idle, 100 * f.hits);
    object[name] = {{"tokens_per_s", f.tokens_per_s}, {"gain", f.tokens_per_s / f.plain_tokens_per_s},
                    {"tokens_a_pass", f.tokens_a_pass}, {"target_idle", f.target_idle},
                    {"draft_idle", f.draft_idle}, {"hits", f.hits}};
  }
  if (options.json) terminal.write(object.dump() + "\n");
  return 0;
}

}  // namespace

const Verb kPlan = {"plan", "Look", "what speculation would bring on another machine", "what",
                    "espalier plan serve --target-ms 10.4 --draft-ms 3.25 --guesses 8 --width 8 --steps 3", run};

}  // namespace espalier
