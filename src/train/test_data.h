// For the tests of this folder: small token shards with something to learn in them.
#pragma once
#include <string>
#include <vector>

#include "base/rng.h"
#include "formats/test_folder.h"
#include "formats/token_shards.h"

namespace espalier {

struct TestShards {
  int64_t vocab = 61, documents = 60, shortest = 5, longest = 90;
  uint64_t seed = 7, vocab_hash = 0;
};

/// Documents that count upward by a step of their own, now and then disturbed: the next token is mostly predictable.
inline std::vector<std::vector<int32_t>> test_documents(const TestShards& shape) {
  std::vector<std::vector<int32_t>> documents;
  for (int64_t d = 0; d < shape.documents; ++d) {
    const Rng rng(shape.seed, Purpose::kTest, uint64_t(d));
    const int64_t length = shape.shortest + int64_t(rng.below(0, uint64_t(shape.longest - shape.shortest + 1)));
    const int64_t step = 1 + int64_t(rng.below(1, 3));
    int64_t id = int64_t(rng.below(2, uint64_t(shape.vocab)));
    std::vector<int32_t> document;
    for (int64_t i = 0; i < length; ++i) {
      document.push_back(int32_t(id));
      id = rng.uniform(uint64_t(100 + i)) < 0.05f ? int64_t(rng.below(uint64_t(1000 + i), uint64_t(shape.vocab)))
                                                  : (id + step) % shape.vocab;
    }
    documents.push_back(document);
  }
  return documents;
}

/// Writes them as one shard.
inline void write_test_shards(const std::string& path, const TestShards& shape = {}) {
  TokenShardWriter writer(
      path, {.dtype = token_dtype(shape.vocab), .vocab_size = shape.vocab, .vocab_hash = shape.vocab_hash});
  for (const auto& document : test_documents(shape)) writer.append(document);
  writer.finish();
}

}  // namespace espalier
