#include "engine/model_drafter.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/clock.h"
#include "base/error.h"

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
  for (int64_t steps = 0; steps < options_.most_steps; ++steps)
    if (!worth_a_pass(most, steps, costs) || !grow()) break;
  Draft draft = heaviest(most);
  counters_.wait_s += watch.seconds();
  return draft;
}

// What a pass can add is the weight of the nodes that it expands: some child of each is right where it is. It is worth
// its time where it brings more tokens a second than the round brings so far.
bool ModelDrafter::worth_a_pass(int64_t most, int64_t steps, const PassCosts& costs) const {
  if (tree_.at(0).cell < 0 || pass_s_ == 0 || costs.one == 0) return true;  // nothing is guessed, or nothing known yet
  double gain = 0;
  for (const int32_t node : tree_.frontier(int32_t(options_.width))) gain += std::exp(tree_.at(node).log_weight);
  const double tokens = 1 + heaviest(most).expected;
  const double seconds = double(steps) * pass_s_ + costs.of(std::min<int64_t>(most, tree_.size() - 1));
  return gain / pass_s_ > tokens / seconds;
}

void ModelDrafter::follow(std::span<const int32_t> text) {
  ESP_CHECK(!text.empty(), "no text");
  const int64_t known = prefix();
  const bool same = int64_t(text.size()) > known && std::equal(prefix_.begin(), prefix_.end(), text.begin());
  if (!same || tree_.empty() || !unread_.empty() || tree_.at(0).token != text[size_t(known)]) return start_over(text);
  int32_t node = 0;
  size_t at = size_t(known) + 1;
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

// The child that the token is, and which of the guesses it was.
std::optional<int32_t> ModelDrafter::judge(int32_t node, int32_t token) {
  size_t rank = 0;
  bool guessed = false;
  for (int32_t i = node + 1; i < tree_.size(); ++i) {
    if (tree_.at(i).parent != node) continue;
    if (!std::exchange(guessed, true)) ++counters_.judged;
    if (tree_.at(i).token != token) {
      ++rank;
      continue;
    }
    if (rank < counters_.right.size()) ++counters_.right[rank];
    return i;
  }
  return std::nullopt;
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
  const int64_t end = prefix() + int64_t(unread_.size());
  if (tree_.size() >= options_.most_nodes || end + 1 > model_.spec().positions) return false;
  const Stopwatch watch;
  const bool text = !unread_.empty();
  if (text) read_text();
  std::vector<int32_t> nodes = tree_.frontier(int32_t(options_.width));
  std::erase_if(nodes, [&](int32_t i) { return prefix() + tree_.at(i).depth + 1 > model_.spec().positions; });
  if (nodes.empty()) return false;
  expand(nodes);
  ++counters_.passes;
  const double seconds = watch.seconds();
  counters_.busy_s += seconds;
  if (!text) pass_s_ = pass_s_ == 0 ? seconds : 0.8 * pass_s_ + 0.2 * seconds;
  return true;
}

void ModelDrafter::read_text() {
  for (size_t at = 0; at < unread_.size(); at += kReadRows) {
    const auto ids = std::span(unread_).subspan(at, std::min<size_t>(kReadRows, unread_.size() - at));
    std::vector<int32_t> positions(ids.size());
    for (size_t i = 0; i < ids.size(); ++i) positions[i] = int32_t(prefix()) + int32_t(i);
    forward(ids, positions, nullptr, 0);
    prefix_.insert(prefix_.end(), ids.begin(), ids.end());
  }
  unread_.clear();
}

void ModelDrafter::expand(std::span<const int32_t> nodes) {
  const int32_t begin = int32_t(cache_.length());
  std::vector<int32_t> ids, positions, rows, lengths;
  int64_t stride = 0;
  for (const int32_t node : nodes) stride = std::max<int64_t>(stride, tree_.at(node).depth + 1);
  rows.resize(nodes.size() * size_t(stride));
  for (size_t i = 0; i < nodes.size(); ++i) {
    const TokenTree::Node& node = tree_.at(nodes[i]);
    ids.push_back(node.token);
    positions.push_back(int32_t(prefix()) + node.depth);
    lengths.push_back(node.depth + 1);
    tree_.set_cell(nodes[i], begin + int32_t(i));
    const std::vector<int32_t> path = tree_.path_to(nodes[i]);
    for (size_t d = 0; d < path.size(); ++d) rows[i * size_t(stride) + d] = tree_.at(path[d]).cell;
  }
  const KeyPaths paths{prefix(), stride, rows.data(), lengths.data()};
  forward(ids, positions, &paths, int64_t(nodes.size()));
  for (size_t i = 0; i < nodes.size(); ++i) add_children(nodes[i], int64_t(i));
}

void ModelDrafter::forward(std::span<const int32_t> ids, std::span<const int32_t> positions, const KeyPaths* paths,
                           int64_t scored) {
  const int64_t rows = int64_t(ids.size());
  cache_.reserve(cache_.length() + rows);
  Tape tape(ctx_, buffers_, DType::kF32, TapeMode::kServe);
  const CacheSegment segment{&cache_, 0, rows, paths};
  const Var hidden = model_.hidden(tape, {1, rows, ids.data(), positions.data(), nullptr, {&segment, 1}});
  cache_.advance(rows);
  if (scored == 0) return;
  const Mat logits = sub_rows(logits_.mat(), 0, scored);
  model_.logits(tape, hidden, logits);
  // loss = log of the sum - logit of id 0
  const std::vector<int32_t> first(size_t(scored), 0);
  kernels(ctx_).cross_entropy(ctx_, {.logits = logits, .targets = first.data(), .loss = log_sums_.data()});
  for (int64_t i = 0; i < scored; ++i) log_sums_[size_t(i)] += *logits.row<float>(i);
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

Draft ModelDrafter::heaviest(int64_t most) const {
  Draft draft;
  const std::vector<int32_t> nodes = tree_.heaviest(int32_t(most));
  std::vector<int32_t> place(size_t(tree_.size()), -1);
  for (const int32_t i : nodes) {
    place[size_t(i)] = int32_t(draft.size());
    draft.tokens.push_back(tree_.at(i).token);
    draft.parents.push_back(tree_.at(i).parent == 0 ? -1 : place[size_t(tree_.at(i).parent)]);
    draft.expected += std::exp(tree_.at(i).log_weight);
  }
  return draft;
}

}  // namespace espalier
