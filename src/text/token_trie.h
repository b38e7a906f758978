// TokenTrie: the bytes of all tokens of a vocabulary as a tree, in which tokens that begin alike share a path. Nodes
// lie in the order of a walk, so a walk is a run through memory that jumps over what a prefix rules out.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace espalier {

class TokenTrie {
 public:
  /// All tokens that say something: special ones, holes and empty ones are left out.
  explicit TokenTrie(const Tokenizer& tokenizer);
  /// Token i is tokens[i]; empty ones are left out.
  explicit TokenTrie(const std::vector<std::string_view>& tokens);

  static constexpr uint32_t kRoot = 0;
  /// Nodes are numbered along the walk; the root is 0. Behind a node's last descendant:
  uint32_t end(uint32_t node) const { return nodes_[node].end; }
  uint8_t byte(uint32_t node) const { return nodes_[node].byte; }
  /// Bytes from the root.
  uint16_t depth(uint32_t node) const { return nodes_[node].depth; }
  /// The ids whose bytes end here; usually none or one.
  std::span<const int32_t> tokens(uint32_t node) const {
    const Node& n = nodes_[node];
    return std::span(ids_).subspan(n.first_id, n.id_count);
  }
  bool has_children(uint32_t node) const { return end(node) > node + 1; }

  size_t size() const { return nodes_.size(); }
  uint16_t max_depth() const { return max_depth_; }
  /// The bytes of a token; empty for one that is left out.
  std::string_view bytes(int32_t id) const;
  /// Largest id + 1.
  int64_t vocab_size() const { return int64_t(begins_.size()) - 1; }

 private:
  struct Node {
    uint32_t end, first_id, id_count;
    uint16_t depth;
    uint8_t byte;
  };
  void build(const std::vector<std::string_view>& tokens);

  std::vector<Node> nodes_;
  std::vector<int32_t> ids_;
  std::vector<uint32_t> begins_;  // of each id in text_
  std::string text_;
  uint16_t max_depth_ = 0;
};

}  // namespace espalier
