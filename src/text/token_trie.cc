#include "text/token_trie.h"

#include <algorithm>

namespace espalier {
namespace {

// Longer tokens (rows of a thousand spaces, in some vocabularies) are left out: the same text has other spellings.
constexpr size_t kMaxBytes = 512;

}  // namespace

TokenTrie::TokenTrie(const Tokenizer& tokenizer) {
  std::vector<std::string_view> tokens(size_t(tokenizer.vocab_size()));
  for (size_t id = 0; id < tokens.size(); ++id)
    if (!tokenizer.is_special(int32_t(id))) tokens[id] = tokenizer.token_bytes(int32_t(id));
  build(tokens);
}

TokenTrie::TokenTrie(const std::vector<std::string_view>& tokens) { build(tokens); }

std::string_view TokenTrie::bytes(int32_t id) const {
  if (id < 0 || id >= vocab_size()) return {};
  const uint32_t begin = begins_[size_t(id)];
  return std::string_view(text_).substr(begin, begins_[size_t(id) + 1] - begin);
}

// Tokens in order of their bytes are a walk through the tree.
void TokenTrie::build(const std::vector<std::string_view>& tokens) {
  std::vector<int32_t> order;
  for (size_t id = 0; id < tokens.size(); ++id) {
    begins_.push_back(uint32_t(text_.size()));
    if (tokens[id].empty() || tokens[id].size() > kMaxBytes) continue;
    text_ += tokens[id];
    order.push_back(int32_t(id));
  }
  begins_.push_back(uint32_t(text_.size()));
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const std::string_view x = bytes(a), y = bytes(b);
    return x != y ? x < y : a < b;
  });
  nodes_.push_back({});
  std::vector<uint32_t> path = {kRoot};
  const auto leave_to = [&](size_t depth) {
    for (; path.size() > depth + 1; path.pop_back()) nodes_[path.back()].end = uint32_t(nodes_.size());
  };
  std::string_view last;
  for (const int32_t id : order) {
    const std::string_view text = bytes(id);
    const size_t same = size_t(std::mismatch(last.begin(), last.end(), text.begin(), text.end()).first - last.begin());
    leave_to(same);
    for (size_t i = same; i < text.size(); ++i) {
      path.push_back(uint32_t(nodes_.size()));
      nodes_.push_back({0, uint32_t(ids_.size()), 0, uint16_t(i + 1), uint8_t(text[i])});
    }
    ids_.push_back(id);
    ++nodes_[path.back()].id_count;
    max_depth_ = std::max(max_depth_, uint16_t(text.size()));
    last = text;
  }
  leave_to(0);
  nodes_[kRoot].end = uint32_t(nodes_.size());
}

}  // namespace espalier
