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
  std::string places = "0.6:0.95/0.03,0.4:0.5/0.16/0.08/0.04";
  int64_t guesses = 8, width = 4, children = 4, steps = 8, rounds = 20000;
  bool fixed = false, json = false;
  void visit(Fields& f) {
    f.field("what", what, "serve");
    f.field("target_ms", target_ms, "the model's pass over one token", 1e-6, 1e9);
    f.field("target_node_ms", target_node_ms, "what each guess adds to a pass that verifies", 0, 1e9);
    f.field("draft_ms", draft_ms, "the draft's pass that continues one guess", 1e-6, 1e9);
    f.field("draft_node_ms", draft_node_ms, "what each further guess adds to it", 0, 1e9);
    f.field("round_ms", round_ms, "what each round costs beside passes", 0, 1e9);
    f.field("places", places, "kinds of places in the text, SHARE:R1/R2/... each: how often the draft's first guess is "
                              "right there, its second, ...");
    f.field("guesses", guesses, "guesses that a pass verifies", 1, 256);
    f.field("width", width, "guesses that a draft pass continues", 1, 64);
    f.field("children", children, "guesses behind each", 1, 64);
    f.field("steps", steps, "most draft passes of a serial round", 1, 64);
    f.field("fixed", fixed, "always so many, though one be not worth its time");
    f.field("rounds", rounds, "rounds that are played", 10, 10000000);
    f.field("json", json, "one object");
  }
};

double number_of(const std::string& text, const std::string& place) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0')
    throw error(Code::kUsage, "--places: '{}' in '{}' is no number; expected SHARE:R1/R2/...", text, place);
  return value;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> pieces;
  for (size_t at = 0, end; at <= text.size(); at = end + 1) {
    end = std::min(text.find(separator, at), text.size());
    pieces.push_back(text.substr(at, end - at));
  }
  return pieces;
}

SpecPlace place_of(const std::string& text) {
  const std::vector<std::string> halves = split(text, ':');
  if (halves.size() != 2)
    throw error(Code::kUsage, "--places: '{}' should have one ':'; expected SHARE:R1/R2/...", text);
  SpecPlace place{.share = number_of(halves[0], text), .ranks = {}};
  for (const std::string& rank : split(halves[1], '/')) place.ranks.push_back(number_of(rank, text));
  return place;
}

SpecPlan plan_of(const Options& o) {
  SpecPlan plan{.target_s = o.target_ms / 1e3,
                .target_node_s = o.target_node_ms / 1e3,
                .draft_s = o.draft_ms / 1e3,
                .draft_node_s = o.draft_node_ms / 1e3,
                .round_s = o.round_ms / 1e3,
                .places = {},
                .guesses = o.guesses,
                .width = o.width,
                .children = o.children,
                .steps = o.steps,
                .adaptive = !o.fixed};
  for (const std::string& place : split(o.places, ',')) plan.places.push_back(place_of(place));
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
                    "espalier plan serve --target-ms 10.4 --draft-ms 3.25 --guesses 8 --width 8", run};

}  // namespace espalier
