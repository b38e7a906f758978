#include "engine/spec_simulation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/rng.h"
#include "engine/token_tree.h"

namespace espalier {
namespace {

constexpr int32_t kUnforeseen = -1;    // a token that is none of the guesses
constexpr int64_t kMostNodes = 512;

void check(const SpecPlan& p) {
  const auto refuse = [](const char* field, double value, const char* expected) {
    throw error(Code::kUsage, "planning speculation: {} is {}; expected {}", field, value, expected);
  };
  if (!(p.target_s > 0)) refuse("target_s", p.target_s, "a time above 0");
  if (!(p.draft_s > 0)) refuse("draft_s", p.draft_s, "a time above 0");
  for (const auto& [field, value] : {std::pair{"target_node_s", p.target_node_s}, {"draft_node_s", p.draft_node_s},
                                     {"round_s", p.round_s}})
    if (!(value >= 0)) refuse(field, value, "a time of 0 or more");
  if (p.guesses < 1 || p.width < 1 || p.children < 1 || p.steps < 1)
    refuse("guesses, width, children or steps", double(std::min({p.guesses, p.width, p.children, p.steps})),
           "1 or more");
  double sum = 0;
  for (const double rank : p.ranks) {
    if (!(rank >= 0 && rank <= 1)) refuse("a rank", rank, "a share from 0 to 1");
    sum += rank;
  }
  if (p.ranks.empty() || sum > 1 + 1e-9) refuse("the sum of ranks", sum, "at least one rank, and 1 together at most");
}

/// The draft, its tree, and the text that the model turns out to write.
class Game {
 public:
  Game(const SpecPlan& plan, uint64_t seed) : plan_(plan), rng_(seed, Purpose::kTest, 0) { tree_.plant(0); }

  /// Seconds of a draft pass over the heaviest nodes; 0 where the tree is full.
  double grow() {
    if (tree_.size() >= kMostNodes) return 0;
    const std::vector<int32_t> nodes = tree_.frontier(int32_t(plan_.width));
    if (nodes.empty()) return 0;
    for (const int32_t node : nodes) {
      tree_.set_cell(node, 0);
      for (int32_t rank = 0; rank < int32_t(std::min(size_t(plan_.children), plan_.ranks.size())); ++rank)
        tree_.add(node, rank, std::log(std::max(plan_.ranks[size_t(rank)], 1e-9)));
    }
    return plan_.draft_s + plan_.draft_node_s * double(nodes.size() - 1);
  }

  int64_t nodes() const { return tree_.size(); }

  std::vector<int32_t> heaviest() const { return tree_.heaviest(int32_t(plan_.guesses)); }

  /// Tokens that a pass over these guesses gives: those that are right, and the one behind them.
  int64_t verdict(const std::vector<int32_t>& guesses) {
    accepted_.clear();
    int32_t node = 0;
    while (true) {
      const int32_t token = next_token();
      accepted_.push_back(token);
      const auto child = tree_.child(node, token);
      if (!child || !std::ranges::binary_search(guesses, *child)) return int64_t(accepted_.size());
      node = *child;
    }
  }

  /// The draft hears of the verdict. True where it lay in the tree.
  bool follow() {
    int32_t node = 0;
    for (const int32_t token : accepted_) {
      const auto child = tree_.child(node, token);
      if (!child) {
        tree_.plant(0);
        return false;
      }
      node = *child;
    }
    tree_.reroot(node);
    return true;
  }

 private:
  int32_t next_token() {
    double u = rng_.uniform(draws_++);
    for (size_t rank = 0; rank < plan_.ranks.size(); ++rank) {
      if (u < plan_.ranks[rank]) return int32_t(rank);
      u -= plan_.ranks[rank];
    }
    return kUnforeseen;
  }

  const SpecPlan& plan_;
  Rng rng_;
  uint64_t draws_ = 0;
  TokenTree tree_;
  std::vector<int32_t> accepted_;
};

}  // namespace

SpecForecast simulate_speculation(const SpecPlan& plan, int64_t rounds, uint64_t seed) {
  check(plan);
  Game game(plan, seed);
  double total_s = 0, verify_s = 0, draft_s = 0, ahead_s = 0;
  int64_t tokens = 0, hits = 0;
  for (int64_t round = 0; round < rounds; ++round) {
    double wait_s = plan.round_s;
    // A serial draft has its passes now; an asynchronous one only where too little outlived the verdict.
    for (int64_t step = 0; plan.async ? game.nodes() <= plan.guesses : step < plan.steps; ++step) {
      const double pass = game.grow();
      wait_s += pass;
      draft_s += pass;
      if (pass == 0) break;
    }
    const std::vector<int32_t> guesses = game.heaviest();
    const double pass_s = plan.target_s + plan.target_node_s * double(guesses.size());
    if (plan.async) {
      // As many as fit beside the pass; one that does not end in time goes on into the next round.
      ahead_s += pass_s;
      for (int64_t step = 0; step < plan.steps && ahead_s >= plan.draft_s; ++step) {
        const double grown = game.grow();
        if (grown == 0) break;
        ahead_s -= grown;
        draft_s += grown;
      }
      ahead_s = std::clamp(ahead_s, -plan.draft_s, plan.draft_s);
      if (ahead_s < 0) wait_s -= ahead_s, ahead_s = 0;
    }
    tokens += game.verdict(guesses);
    hits += game.follow();
    verify_s += pass_s;
    total_s += wait_s + pass_s;
  }
  return {.tokens_per_s = double(tokens) / total_s,
          .plain_tokens_per_s = 1 / plan.target_s,
          .tokens_a_pass = double(tokens) / double(rounds),
          .target_idle = 1 - verify_s / total_s,
          .draft_idle = std::max(0.0, 1 - draft_s / total_s),
          .hits = double(hits) / double(rounds)};
}

}  // namespace espalier
