// What finished requests have read of their texts, for prompts that begin alike. Rows of the cache are the same bits
// however a text was cut into passes and whoever shared them, so what was read for one request is what another would
// read.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/kv_cache.h"

namespace espalier {

/// How many tokens at the front of both are the same, at most `limit`.
int64_t common_prefix(std::span<const int32_t> a, std::span<const int32_t> b, int64_t limit);

struct PrefixCacheOptions {
  int64_t texts = 0;      ///< that are remembered; the one that was of use the longest ago goes first
  int64_t bytes = int64_t(4) << 30;  ///< that their caches take together
};

class PrefixCache {
 public:
  explicit PrefixCache(const PrefixCacheOptions& options) : options_(options) {}

  /// A text as some reader reads it: what was read with other adapters is another text.
  struct Key {
    std::span<const int32_t> tokens;
    std::string_view reader = {};
  };

  /// Remembers a text and the cache of its first tokens; texts that it begins with are forgotten.
  void add(std::vector<int32_t> tokens, std::string reader, KvCache cache);
  /// The longest beginning of the text that is remembered, `limit` tokens at most.
  int64_t longest(const Key& key, int64_t limit) const;
  /// Fills `cache` with it and returns its length. A text that is remembered no further is moved, others are copied.
  int64_t take(const Key& key, int64_t limit, KvCache& cache);
  void clear() { texts_.clear(); }

 private:
  struct Text {
    std::vector<int32_t> tokens;
    std::string reader;
    KvCache cache;
    int64_t shared_with(const Key& other, int64_t limit) const;
  };
  void make_room();

  PrefixCacheOptions options_;
  std::vector<Text> texts_;  // the one used last at the end
};

}  // namespace espalier
