#include "engine/outcome_frontier.h"

#include <algorithm>

namespace espalier {
namespace {

/// Children in the order in which the draft gave them: the likeliest first.
std::vector<int32_t> children_of(const TokenTree& tree, int32_t node) {
  std::vector<int32_t> children;
  for (int32_t i = node + 1; i < tree.size(); ++i)
    if (tree.at(i).parent == node) children.push_back(i);
  return children;
}

}  // namespace

std::vector<int32_t> likeliest_chain(const TokenTree& tree, int32_t node, int64_t most) {
  std::vector<int32_t> chain;
  while (int64_t(chain.size()) < most) {
    const std::vector<int32_t> children = children_of(tree, node);
    if (children.empty()) break;
    chain.push_back(node = children[0]);
  }
  return chain;
}

std::vector<int32_t> outcome_frontier(const TokenTree& tree, const OutcomeOptions& options, int64_t width) {
  if (tree.at(0).cell < 0) return {0};
  const std::vector<int32_t> chain = likeliest_chain(tree, 0, options.chain);
  for (const int32_t node : chain)
    if (tree.at(node).cell < 0) return {node};
  std::vector<int32_t> tips;  // of the continuations, the foreseen tokens themselves included
  int32_t at = 0;
  for (int64_t right = 0; right <= int64_t(chain.size()); ++right) {
    const bool last = right == int64_t(chain.size());
    int64_t fan = std::max<int64_t>(1, options.fan >> right);
    for (const int32_t head : children_of(tree, at)) {
      if (!last && head == chain[size_t(right)]) continue;
      if (fan-- == 0) break;
      std::vector<int32_t> line = likeliest_chain(tree, head, options.chain - 1);
      line.insert(line.begin(), head);
      const auto unseen = std::ranges::find_if(line, [&](int32_t node) { return tree.at(node).cell < 0; });
      if (unseen != line.end()) tips.push_back(*unseen);
    }
    if (!last) at = chain[size_t(right)];
  }
  // The shortest continuations first; outcomes of fewer right guesses before others.
  std::ranges::stable_sort(tips, {}, [&](int32_t node) {
    int32_t below = 0;
    for (int32_t i = node; i != 0 && !std::ranges::binary_search(chain, i); i = tree.at(i).parent) ++below;
    return below;
  });
  if (int64_t(tips.size()) > width) tips.resize(size_t(width));
  return tips;
}

}  // namespace espalier
