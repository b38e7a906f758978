#include "engine/spec_simulation.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/rng.h"
#include "engine/draft_worth.h"
#include "engine/token_tree.h"

namespace espalier {
namespace {

constexpr int32_t kUnforeseen = -1;  // a token that is none of the guesses
constexpr int32_t kMostNodes = 256;  // as ModelDrafterOptions says

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
  if (p.places.empty()) refuse("the number of places", 0, "1 or more");
  for (const SpecPlace& place : p.places) {
    if (!(place.share > 0)) refuse("the share of a place", place.share, "a number above 0");
    double sum = 0;
    for (const double rank : place.ranks) {
      if (!(rank >= 0 && rank <= 1)) refuse("a rank", rank, "a share from 0 to 1");
      sum += rank;
    }
    if (place.ranks.empty() || sum > 1 + 1e-9)
      refuse("the sum of the ranks of a place", sum, "at least one rank, and 1 together at most");
  }
}

/// The draft's tree over a text that unfolds at random. A token is the rank of the guess that it is.
class Game {
 public:
  Game(const SpecPlan& plan, uint64_t seed) : plan_(plan), rng_(seed, Purpose::kTest, 0) {
    for (const SpecPlace& place : plan.places) shares_ += place.share;
    here_ = draw_kind();
    plant();
  }

  const TokenTree& tree() const { return tree_; }

  std::vector<int32_t> begin_pass() {
    if (tree_.seen() >= kMostNodes) return {};
    std::vector<int32_t> nodes = tree_.frontier(int32_t(plan_.width));
    for (const int32_t node : nodes) tree_.set_cell(node, 0);
    return nodes;
  }
  double seconds_of(const std::vector<int32_t>& nodes) const {
    return plan_.draft_s + plan_.draft_node_s * double(nodes.size() - 1);
  }
  void end_pass(const std::vector<int32_t>& nodes) {
    for (const int32_t node : nodes) {
      const std::vector<double>& ranks = plan_.places[kinds_[size_t(node)]].ranks;
      for (size_t rank = 0; rank < std::min(size_t(plan_.children), ranks.size()); ++rank) {
        tree_.add(node, int32_t(rank), std::log(std::max(ranks[rank], 1e-9)));
        kinds_.push_back(draw_kind());
      }
    }
    keep_kinds(tree_.drop_lightest(kMostNodes));
  }

  /// The node of the text's last token.
  std::optional<int32_t> find() {
    std::optional<int32_t> node = 0;
    for (size_t i = 0; node && i < unread_.size(); ++i) node = tree_.child(*node, unread_[i]);
    if (node) kinds_[size_t(*node)] = here_;
    return node;
  }
  /// Guesses below a node that a pass would verify.
  int64_t guesses_below(int32_t node) const { return int64_t(below(node).heaviest(int32_t(plan_.guesses)).size()); }

  /// Tokens that a pass gives which verifies the guesses below `node`: those that are right, and the one behind them.
  int64_t verdict(std::optional<int32_t> node) {
    const int32_t root = node.value_or(0);
    std::vector<int32_t> numbers;  // of the tree, for each node below
    const TokenTree guessed = node ? below(root, &numbers) : TokenTree();
    const std::vector<int32_t> verified = node ? guessed.heaviest(int32_t(plan_.guesses)) : std::vector<int32_t>{};
    int64_t tokens = 0;
    for (int32_t at = 0;; ++tokens) {
      const int32_t token = draw_token();
      unread_.push_back(token);
      const std::optional<int32_t> child = node ? guessed.child(at, token) : std::nullopt;
      here_ = child ? kinds_[size_t(numbers[size_t(*child)])] : draw_kind();
      if (!child || !std::ranges::binary_search(verified, *child)) return tokens + 1;
      at = *child;
    }
  }

  /// The draft hears of the text. True where it lay in the tree.
  bool follow() {
    const std::optional<int32_t> node = find();
    unread_.clear();
    if (!node) return plant(), false;
    keep_kinds(tree_.reroot(*node));
    return true;
  }

 private:
  void keep_kinds(const std::vector<int32_t>& kept) {
    std::vector<size_t> kinds;
    for (const int32_t old : kept) kinds.push_back(kinds_[size_t(old)]);
    kinds_ = std::move(kinds);
  }

  void plant() {
    tree_.plant(0);
    kinds_.assign(1, here_);
  }

  TokenTree below(int32_t node, std::vector<int32_t>* numbers = nullptr) const {
    TokenTree tree = tree_;
    std::vector<int32_t> kept = tree.reroot(node);
    if (numbers) *numbers = std::move(kept);
    return tree;
  }

  int32_t draw_token() {
    const std::vector<double>& ranks = plan_.places[here_].ranks;
    double u = rng_.uniform(draws_++);
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      if (u < ranks[rank]) return int32_t(rank);
      u -= ranks[rank];
    }
    return kUnforeseen;
  }

  size_t draw_kind() {
    double u = rng_.uniform(draws_++) * shares_;
    for (size_t kind = 0; kind + 1 < plan_.places.size(); ++kind) {
      if (u < plan_.places[kind].share) return kind;
      u -= plan_.places[kind].share;
    }
    return plan_.places.size() - 1;
  }

  const SpecPlan& plan_;
  Rng rng_;
  uint64_t draws_ = 0;
  double shares_ = 0;
  size_t here_ = 0;  // the kind of place behind the text's last token
  TokenTree tree_;
  std::vector<size_t> kinds_;    // of the place behind each node
  std::vector<int32_t> unread_;  // tokens that the draft has not heard of
};

struct Sums {
  double total_s = 0, verify_s = 0, draft_s = 0;
  int64_t tokens = 0, rounds = 0, verdicts = 0, hits = 0;
  double tokens_per_s() const { return rounds > 12 ? double(tokens) / total_s : 0; }
};

double verify_seconds(const SpecPlan& plan, int64_t guesses) {
  return plan.target_s + plan.target_node_s * double(guesses);
}

void play_serial(const SpecPlan& plan, Game& game, Sums& sums) {
  const PassCosts costs{.one = plan.target_s, .a_node = plan.target_node_s};
  DraftRound round{.width = plan.width, .most = plan.guesses, .pass_s = plan.draft_s};
  double wait_s = plan.round_s;
  for (; round.passes < plan.steps; ++round.passes) {
    if (plan.adaptive && !worth_a_pass(game.tree(), round, costs)) break;
    const std::vector<int32_t> nodes = game.begin_pass();
    if (nodes.empty()) break;
    game.end_pass(nodes);
    wait_s += game.seconds_of(nodes);
    sums.draft_s += game.seconds_of(nodes);
  }
  const double pass_s = verify_seconds(plan, game.guesses_below(0));
  sums.tokens += game.verdict(0);
  sums.hits += game.follow();
  ++sums.verdicts;
  sums.verify_s += pass_s;
  sums.total_s += wait_s + pass_s;
}

/// Two clocks: the draft's passes follow each other without a gap, the model's wait for guesses where that pays.
class AsyncPlay {
 public:
  AsyncPlay(const SpecPlan& plan, Game& game, Sums& sums) : plan_(plan), game_(game), sums_(sums) {
    double shares = 0;
    for (const SpecPlace& place : plan.places) {
      first_right_ += place.share * place.ranks[0];
      shares += place.share;
    }
    first_right_ /= shares;
  }

  void play_round() {
    run_draft(now_);
    ordered_ = true;
    if (nodes_.empty()) take_note(now_);
    std::optional<int32_t> node = game_.find();
    if (guesses(node) == 0 && worth_waiting(node)) {
      while (guesses(node) == 0 && !nodes_.empty()) {
        now_ = ends_;
        run_draft(now_);
        node = game_.find();
      }
    }
    const double pass_s = verify_seconds(plan_, guesses(node));
    sums_.tokens += game_.verdict(node);
    sums_.verify_s += pass_s;
    now_ += pass_s + plan_.round_s;
    sums_.total_s = now_;
  }

 private:
  int64_t guesses(std::optional<int32_t> node) const { return node ? game_.guesses_below(*node) : 0; }

  bool worth_waiting(std::optional<int32_t> node) const {
    const bool comes = !nodes_.empty() && node && game_.tree().at(*node).cell >= 0;
    const double rest = nodes_.empty() ? 0 : ends_ - now_;
    return first_right_ > (rest + (comes ? 0 : plan_.draft_s)) * sums_.tokens_per_s();
  }

  void begin_pass(double at) {
    nodes_ = game_.begin_pass();
    if (nodes_.empty()) return;
    ends_ = at + game_.seconds_of(nodes_);
    sums_.draft_s += game_.seconds_of(nodes_);
  }

  void take_note(double at) {
    if (std::exchange(ordered_, false)) {
      sums_.hits += game_.follow();
      ++sums_.verdicts;
    }
    begin_pass(at);
  }

  void run_draft(double until) {
    while (!nodes_.empty() && ends_ <= until) {
      game_.end_pass(nodes_);
      take_note(ends_);
    }
  }

  const SpecPlan& plan_;
  Game& game_;
  Sums& sums_;
  double first_right_ = 0;
  double now_ = 0, ends_ = 0;
  std::vector<int32_t> nodes_;  // of the draft's pass; empty: it stands still
  bool ordered_ = false;        // there is text that the draft has not heard of
};

}  // namespace

SpecForecast simulate_speculation(const SpecPlan& plan, int64_t rounds, uint64_t seed) {
  check(plan);
  Game game(plan, seed);
  Sums sums;
  AsyncPlay beside(plan, game, sums);
  for (; sums.rounds < rounds; ++sums.rounds)
    if (plan.async) beside.play_round();
    else play_serial(plan, game, sums);
  return {.tokens_per_s = double(sums.tokens) / sums.total_s,
          .plain_tokens_per_s = 1 / plan.target_s,
          .tokens_a_pass = double(sums.tokens) / double(rounds),
          .target_idle = 1 - sums.verify_s / sums.total_s,
          .draft_idle = std::max(0.0, 1 - sums.draft_s / sums.total_s),
          .hits = double(sums.hits) / double(std::max<int64_t>(1, sums.verdicts))};
}

}  // namespace espalier
