#include "engine/token_tree.h"

#include <algorithm>

#include "base/check.h"

namespace espalier {

void TokenTree::plant(int32_t token) { nodes_.assign(1, {.token = token}); }

int32_t TokenTree::add(int32_t parent, int32_t token, double log_probability) {
  ESP_CHECK(parent >= 0 && parent < size(), "parent {} of {}", parent, size());
  const Node& above = at(parent);
  nodes_.push_back({token, parent, above.depth + 1, above.log_weight + log_probability, -1});
  return size() - 1;
}

std::optional<int32_t> TokenTree::child(int32_t node, int32_t token) const {
  for (int32_t i = node + 1; i < size(); ++i)
    if (at(i).parent == node && at(i).token == token) return i;
  return std::nullopt;
}

std::vector<int32_t> TokenTree::frontier(int32_t count) const {
  std::vector<int32_t> unseen;
  for (int32_t i = 0; i < size(); ++i)
    if (at(i).cell < 0) unseen.push_back(i);
  std::ranges::stable_sort(unseen, [this](int32_t a, int32_t b) { return at(a).log_weight > at(b).log_weight; });
  if (int32_t(unseen.size()) > count) unseen.resize(size_t(count));
  return unseen;
}

std::vector<int32_t> TokenTree::heaviest(int32_t count) const {
  std::vector<int32_t> nodes;
  for (int32_t i = 1; i < size(); ++i) nodes.push_back(i);
  // A child of probability 1 weighs what its parent does: the stable order keeps the parent.
  std::ranges::stable_sort(nodes, [this](int32_t a, int32_t b) { return at(a).log_weight > at(b).log_weight; });
  if (int32_t(nodes.size()) > count) nodes.resize(size_t(count));
  std::ranges::sort(nodes);
  return nodes;
}

std::vector<int32_t> TokenTree::path_to(int32_t node) const {
  std::vector<int32_t> path;
  for (int32_t i = node; i >= 0; i = at(i).parent) path.push_back(i);
  std::ranges::reverse(path);
  return path;
}

std::vector<int32_t> TokenTree::reroot(int32_t node) {
  std::vector<bool> below(nodes_.size(), false);
  below[size_t(node)] = true;
  for (int32_t i = node + 1; i < size(); ++i) below[size_t(i)] = at(i).parent >= node && below[size_t(at(i).parent)];
  const Node root = at(node);
  std::vector<int32_t> kept = keep(below);
  for (Node& n : nodes_) {
    n.depth -= root.depth;
    n.log_weight -= root.log_weight;
  }
  return kept;
}

std::vector<int32_t> TokenTree::drop_lightest(int32_t count) {
  std::vector<bool> wanted(nodes_.size(), false);
  for (int32_t i = 0; i < size(); ++i) wanted[size_t(i)] = at(i).cell >= 0;
  for (const int32_t i : frontier(count)) wanted[size_t(i)] = true;
  return keep(wanted);
}

int32_t TokenTree::seen() const {
  return int32_t(std::ranges::count_if(nodes_, [](const Node& node) { return node.cell >= 0; }));
}

// A node whose parent goes becomes the root.
std::vector<int32_t> TokenTree::keep(const std::vector<bool>& wanted) {
  std::vector<int32_t> kept, place(nodes_.size(), -1);
  std::vector<Node> nodes;
  for (int32_t i = 0; i < size(); ++i) {
    if (!wanted[size_t(i)]) continue;
    place[size_t(i)] = int32_t(kept.size());
    kept.push_back(i);
    nodes.push_back(at(i));
    if (at(i).parent >= 0) nodes.back().parent = place[size_t(at(i).parent)];
  }
  nodes_ = std::move(nodes);
  return kept;
}

}  // namespace espalier
