#include "engine/model_drafter.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "engine/draft_worth.h"

namespace espalier {
namespace {

constexpr int64_t kReadRows = 128;  // of the text a pass, before the first guess

int64_t guessed_ids(const Decoder& model, int64_t vocab, int64_t head_rows) {
  const int64_t shared = std::min(vocab, model.spec().vocab);
  return head_rows > 0 ? std::min(head_rows, shared) : shared;
}

}  // namespace

ModelDrafter::ModelDrafter(Context& ctx, Decoder& model, int64_t vocab, const ModelDrafterOptions& options)
    : ctx_(ctx), model_(model), options_(options), vocab_(guessed_ids(model, vocab, options.head_rows)),
      cache_(model.spec()), logits_(DType::kF32, {options.width, vocab_}), log_sums_(size_t(options.width)) {
  ESP_CHECK(options.width > 0 && options.children > 0, "width {}, children {}", options.width, options.children);
}

Draft ModelDrafter::propose(std::span<const int32_t> text, int64_t most, const PassCosts& costs) {
  const Stopwatch watch;
  follow(text);
  for (DraftRound round{.width = options_.width, .most = most}; round.passes < options_.most_steps; ++round.passes) {
    round.pass_s = pass_s_;
    if (!worth_a_pass(tree_, round, costs) || !grow()) break;
  }
  Draft draft = guesses(most);
  counters_.wait_s += watch.seconds();
  return draft;
}

void ModelDrafter::follow(std::span<const int32_t> text) {
  ESP_CHECK(!text.empty(), "no text");
  if (!continues(text)) return start_over(text);
  int32_t node = 0;
  size_t at = size_t(prefix()) + 1;
  for (; at < text.size(); ++at) {
    const auto next = judge(node, text[at]);
    if (!next) break;
    node = *next;
  }
  adopt(node);
  if (at == text.size()) {
    ++counters_.hits;
    counters_.kept_nodes += tree_.size() - 1;
    return;
  }
  ++counters_.misses;
  start_over(text);
}

bool ModelDrafter::continues(std::span<const int32_t> text) const {
  if (tree_.empty() || !unread_.empty() || int64_t(text.size()) <= prefix()) return false;
  return std::ranges::equal(prefix_, text.first(prefix_.size())) && tree_.at(0).token == text[prefix_.size()];
}

std::optional<int32_t> ModelDrafter::find(std::span<const int32_t> text) const {
  if (!continues(text)) return std::nullopt;
  std::optional<int32_t> node = 0;
  for (size_t at = prefix_.size() + 1; node && at < text.size(); ++at) node = tree_.child(*node, text[at]);
  return node;
}

// The child that the token is, and which of the guesses it was.
std::optional<int32_t> ModelDrafter::judge(int32_t node, int32_t token) {
  std::optional<double> first;
  std::optional<int32_t> right;
  size_t rank = 0;
  for (int32_t i = node + 1; i < tree_.size() && !right; ++i) {
    if (tree_.at(i).parent != node) continue;
    if (!first) first = std::exp(tree_.at(i).log_weight - tree_.at(node).log_weight);
    if (tree_.at(i).token == token) right = i;
    else ++rank;
  }
  if (first) counters_.judge(*first, right ? std::optional(rank) : std::nullopt);
  return right;
}

// The way to the node becomes part of the text, the node the root.
void ModelDrafter::adopt(int32_t node) {
  std::vector<int32_t> path = tree_.path_to(node), rows;
  path.pop_back();
  for (const int32_t i : path) {
    rows.push_back(tree_.at(i).cell);
    prefix_.push_back(tree_.at(i).token);
  }
  const int64_t begin = prefix() - int64_t(path.size());
  tree_.reroot(node);
  // Nodes in the order of their cells, which is not that of their numbers.
  std::vector<int32_t> seen;
  for (int32_t i = 0; i < tree_.size(); ++i)
    if (tree_.at(i).cell >= 0) seen.push_back(i);
  std::ranges::sort(seen, {}, [this](int32_t i) { return tree_.at(i).cell; });
  for (const int32_t i : seen) {
    rows.push_back(tree_.at(i).cell);
    tree_.set_cell(i, int32_t(begin) + int32_t(rows.size()) - 1);
  }
  cache_.gather(begin, rows);
}

// Keeps of the cache what the text begins with.
void ModelDrafter::start_over(std::span<const int32_t> text) {
  // A root that was seen is one token more of the text.
  if (!tree_.empty() && unread_.empty() && tree_.at(0).cell >= 0) prefix_.push_back(tree_.at(0).token);
  const auto limit = std::min(prefix_.size(), text.size() - 1);
  const auto same = std::mismatch(prefix_.begin(), prefix_.begin() + int64_t(limit), text.begin()).first;
  prefix_.erase(same, prefix_.end());
  cache_.truncate(prefix());
  unread_.assign(text.begin() + prefix(), text.end() - 1);
  tree_.plant(text.back());
}

bool ModelDrafter::grow() {
  while (std::optional<Pass> pass = begin_pass()) {
    try {
      compute(*pass);
    } catch (...) {  // the edge: what a failed pass was to read is not in the cache
      forget();
      throw;
    }
    end_pass(*pass);
    if (!pass->nodes.empty()) return true;
  }
  return false;
}

std::optional<ModelDrafter::Pass> ModelDrafter::begin_pass() {
  const int64_t end = prefix() + int64_t(unread_.size()), positions = model_.spec().positions;
  if (tree_.empty() || tree_.seen() >= options_.most_nodes || end + 1 > positions) return std::nullopt;
  if (!unread_.empty()) return reading_pass();
  std::vector<int32_t> nodes = options_.outcomes ? outcome_frontier(tree_, *options_.outcomes, options_.width)
                                                 : tree_.frontier(int32_t(options_.width));
  std::erase_if(nodes, [&](int32_t i) { return prefix() + tree_.at(i).depth + 1 > positions; });
  if (nodes.empty()) return std::nullopt;
  return growing_pass(std::move(nodes));
}

ModelDrafter::Pass ModelDrafter::reading_pass() {
  Pass pass;
  const size_t count = std::min<size_t>(kReadRows, unread_.size());
  pass.ids.assign(unread_.begin(), unread_.begin() + int64_t(count));
  unread_.erase(unread_.begin(), unread_.begin() + int64_t(count));
  prefix_.insert(prefix_.end(), pass.ids.begin(), pass.ids.end());
  if (unread_.empty()) {
    pass.nodes = {0};
    pass.ids.push_back(tree_.at(0).token);
    tree_.set_cell(0, int32_t(prefix()));
  }
  for (size_t i = 0; i < pass.ids.size(); ++i) pass.positions.push_back(int32_t(cache_.length()) + int32_t(i));
  return pass;
}

ModelDrafter::Pass ModelDrafter::growing_pass(std::vector<int32_t> nodes) {
  Pass pass{.nodes = std::move(nodes)};
  const int32_t begin = int32_t(cache_.length());
  int64_t stride = 0;
  for (const int32_t node : pass.nodes) stride = std::max<int64_t>(stride, tree_.at(node).depth + 1);
  pass.rows.resize(pass.nodes.size() * size_t(stride));
  for (size_t i = 0; i < pass.nodes.size(); ++i) {
    const TokenTree::Node& node = tree_.at(pass.nodes[i]);
    pass.ids.push_back(node.token);
    pass.positions.push_back(int32_t(prefix()) + node.depth);
    pass.lengths.push_back(node.depth + 1);
    tree_.set_cell(pass.nodes[i], begin + int32_t(i));
    const std::vector<int32_t> path = tree_.path_to(pass.nodes[i]);
    for (size_t d = 0; d < path.size(); ++d) pass.rows[i * size_t(stride) + d] = tree_.at(path[d]).cell;
  }
  pass.paths = KeyPaths{prefix(), stride, pass.rows.data(), pass.lengths.data()};
  return pass;
}

void ModelDrafter::compute(Pass& pass) {
  const Stopwatch watch;
  const int64_t rows = int64_t(pass.ids.size()), scored = int64_t(pass.nodes.size());
  cache_.reserve(cache_.length() + rows);
  Tape tape(ctx_, buffers_, DType::kF32, TapeMode::kServe);
  const CacheSegment segment{&cache_, 0, rows, pass.paths ? &*pass.paths : nullptr};
  const Var hidden = model_.hidden(tape, {1, rows, pass.ids.data(), pass.positions.data(), nullptr, {&segment, 1}});
  cache_.advance(rows);
  if (scored > 0) {
    const Var last = tape.make(scored, hidden.cols());
    std::memcpy(last.value().row<float>(0), hidden.value().row<float>(rows - scored),
                size_t(scored * hidden.cols()) * sizeof(float));
    const Mat logits = sub_rows(logits_.mat(), 0, scored);
    model_.logits(tape, last, logits);
    // loss = log of the sum - logit of id 0
    const std::vector<int32_t> first(size_t(scored), 0);
    kernels(ctx_).cross_entropy(ctx_, {.logits = logits, .targets = first.data(), .loss = log_sums_.data()});
    for (int64_t i = 0; i < scored; ++i) log_sums_[size_t(i)] += *logits.row<float>(i);
  }
  pass.seconds = watch.seconds();
}

void ModelDrafter::end_pass(const Pass& pass) {
  for (size_t i = 0; i < pass.nodes.size(); ++i) add_children(pass.nodes[i], int64_t(i));
  tree_.drop_lightest(int32_t(options_.most_nodes));
  ++counters_.passes;
  counters_.busy_s += pass.seconds;
  const bool usual = int64_t(pass.ids.size()) <= std::max<int64_t>(options_.width, 2);
  if (usual) pass_s_ = pass_s_ == 0 ? pass.seconds : 0.8 * pass_s_ + 0.2 * pass.seconds;
}

void ModelDrafter::forget() {
  tree_.clear();
  prefix_.clear();
  unread_.clear();
  cache_.truncate(0);
}

// The likeliest few.
void ModelDrafter::add_children(int32_t node, int64_t row) {
  const float* logits = logits_.mat().row<float>(row);
  struct Best {
    float logit;
    int32_t id;
  };
  std::vector<Best> best;
  const size_t wanted = size_t(std::min(options_.children, vocab_));
  float least = -INFINITY;
  for (int64_t id = 0; id < vocab_; ++id) {
    if (!(logits[id] > least)) continue;
    const auto at = std::ranges::find_if(best, [&](const Best& b) { return b.logit < logits[id]; });
    best.insert(at, {logits[id], int32_t(id)});
    if (best.size() > wanted) best.pop_back();
    if (best.size() == wanted) least = best.back().logit;
  }
  for (const Best& b : best) tree_.add(node, b.id, double(b.logit) - double(log_sums_[size_t(row)]));
}

Draft ModelDrafter::guesses(int64_t most, int32_t node) const {
  TokenTree below = tree_;
  if (node != 0) below.reroot(node);
  Draft draft;
  std::vector<int32_t> place(size_t(below.size()), -1);
  const std::vector<int32_t> nodes =
      options_.outcomes ? likeliest_chain(below, 0, std::min(most, options_.outcomes->chain))
                        : below.heaviest(int32_t(most));
  for (const int32_t i : nodes) {
    place[size_t(i)] = int32_t(draft.tokens.size());
    draft.tokens.push_back(below.at(i).token);
    draft.parents.push_back(below.at(i).parent == 0 ? -1 : place[size_t(below.at(i).parent)]);
    draft.expected += std::exp(below.at(i).log_weight);
  }
  return draft;
}

}  // namespace espalier
