#include "engine/prefix_cache.h"

#include <algorithm>

namespace espalier {

int64_t common_prefix(std::span<const int32_t> a, std::span<const int32_t> b, int64_t limit) {
  const size_t most = std::min({a.size(), b.size(), size_t(std::max<int64_t>(limit, 0))});
  return std::mismatch(a.begin(), a.begin() + int64_t(most), b.begin()).first - a.begin();
}

int64_t PrefixCache::Text::shared_with(const Key& other, int64_t limit) const {
  return reader == other.reader ? common_prefix(tokens, other.tokens, std::min(limit, cache.length())) : 0;
}

void PrefixCache::add(std::vector<int32_t> tokens, std::string reader, KvCache cache) {
  if (options_.texts == 0 || cache.length() == 0) return;
  std::erase_if(texts_, [&](const Text& text) {
    return text.shared_with({tokens, reader}, cache.length()) == text.cache.length();
  });
  texts_.push_back({std::move(tokens), std::move(reader), std::move(cache)});
  make_room();
}

void PrefixCache::make_room() {
  int64_t bytes = 0;
  for (const Text& text : texts_) bytes += text.cache.bytes();
  while (!texts_.empty() && (int64_t(texts_.size()) > options_.texts || bytes > options_.bytes)) {
    bytes -= texts_.front().cache.bytes();
    texts_.erase(texts_.begin());
  }
}

int64_t PrefixCache::longest(const Key& key, int64_t limit) const {
  int64_t length = 0;
  for (const Text& text : texts_) length = std::max(length, text.shared_with(key, limit));
  return length;
}

int64_t PrefixCache::take(const Key& key, int64_t limit, KvCache& cache) {
  const int64_t length = longest(key, limit);
  if (length == 0) return 0;
  const auto text = std::ranges::find_if(texts_, [&](const Text& t) { return t.shared_with(key, limit) == length; });
  if (length == text->cache.length()) {
    cache = std::move(text->cache);
    texts_.erase(text);
    return length;
  }
  cache.copy(text->cache, length);
  std::rotate(text, text + 1, texts_.end());
  return length;
}

}  // namespace espalier
