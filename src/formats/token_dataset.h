// TokenDataset: many token shards as one sequence of tokens, addressed by position. It knows where documents start; in
// which order a trainer visits positions is train/'s affair.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "formats/token_shards.h"

namespace espalier {

/// The file that `espalier prepare` leaves beside the shards: what was made of what.
inline constexpr const char* kPrepareManifest = "prepare.json";
inline constexpr const char* kPrepareMaker = "espalier prepare";

class TokenDataset {
 public:
  /// `source` is a shard, a folder (all its *.tokens) or a glob; in the order of the names. `vocab_size` is the
  /// model's, for shards that do not say theirs (0: any id). Throws Error kNotFound (also where a
  /// shard is gone that prepare.json lists), kMismatch where shards differ in
  /// vocabulary or theirs is larger than vocab_size, and what TokenShard::open throws.
  static TokenDataset open(const std::string& source, int64_t vocab_size = 0);
  static TokenDataset open(const std::vector<std::string>& paths, int64_t vocab_size = 0);

  int64_t token_count() const { return begins_.back(); }
  const std::vector<TokenShard>& shards() const { return shards_; }
  /// 0 where the shards do not say.
  int64_t vocab_size() const { return shards_[0].vocab_size(); }
  uint64_t vocab_hash() const { return shards_[0].vocab_hash(); }
  /// Of the shards' lengths and recorded checksums: another one for other tokens (foreign shards: other lengths).
  uint64_t fingerprint() const;

  /// Tokens [position, position + count), which lie within the dataset, across shards. Throws as TokenShard::read.
  void read(int64_t position, int64_t count, int32_t* out) const;
  /// Where the document that holds `position` starts. A shard without recorded documents is one document.
  int64_t document_start_of(int64_t position) const;
  /// Replaces `starts` by the document starts in [begin, begin + count), ascending.
  void document_starts_in(int64_t begin, int64_t count, std::vector<int64_t>& starts) const;
  void verify() const;

 private:
  size_t shard_of(int64_t position) const;
  std::vector<TokenShard> shards_;
  std::vector<int64_t> begins_;  // first position of each shard, then the end
  int64_t id_limit_ = 0;
};

}  // namespace espalier
