// A tree of guesses at how a text goes on, as a draft model grows it (SwiftSpec, arXiv 2506.11309, section 4; SpecExec,
// arXiv 2406.02532): the root is the text's last token, a node's weight the product of the draft's probabilities on
// the way to it. Weights fall with depth, so the heaviest nodes always form a tree.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

namespace espalier {

class TokenTree {
 public:
  struct Node {
    int32_t token = 0;
    int32_t parent = -1;  ///< -1: the root
    int32_t depth = 0;
    double log_weight = 0;
    int32_t cell = -1;  ///< row of the draft's cache; -1: no pass has seen the node
  };

  bool empty() const { return nodes_.empty(); }
  int32_t size() const { return int32_t(nodes_.size()); }
  const Node& at(int32_t node) const { return nodes_[size_t(node)]; }

  void clear() { nodes_.clear(); }
  /// A new tree of one node, number 0.
  void plant(int32_t token);
  /// A child; its log weight is the parent's plus `log_probability`. Parents have lower numbers than their children.
  int32_t add(int32_t parent, int32_t token, double log_probability);
  void set_cell(int32_t node, int32_t cell) { nodes_[size_t(node)].cell = cell; }
  std::optional<int32_t> child(int32_t node, int32_t token) const;

  /// At most `count` nodes that no pass has seen, the heaviest first.
  std::vector<int32_t> frontier(int32_t count) const;
  /// The `count` heaviest nodes beside the root (fewer where there are no more), parents before children.
  std::vector<int32_t> heaviest(int32_t count) const;
  /// Nodes from the root to `node`, both included.
  std::vector<int32_t> path_to(int32_t node) const;
  /// Makes `node` the root, of weight 1: it and what is below it stay, in their order. Returns the old numbers.
  std::vector<int32_t> reroot(int32_t node);
  /// Of the nodes that no pass has seen, keeps the `count` heaviest: the others would hardly ever be guesses. Returns
  /// the old numbers of all that stay, in order.
  std::vector<int32_t> drop_lightest(int32_t count);
  /// Nodes that a pass has seen.
  int32_t seen() const;

 private:
  std::vector<int32_t> keep(const std::vector<bool>& wanted);

  std::vector<Node> nodes_;
};

}  // namespace espalier
