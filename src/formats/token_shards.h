// Token shards: documents as token ids, mapped. Our own format with checksums and document starts, and the two that the
// field has (nanoGPT's and llm.c's), behind one TokenShard. Byte layouts: docs/formats/token_shards.md.
// Many shards as one sequence: formats/token_dataset.h.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "tensor/dtype.h"

namespace espalier {

/// The file name extension of our own shards.
inline constexpr const char* kTokenShardExtension = ".tokens";

/// The narrowest dtype that holds every id below vocab_size: u16 up to 65,536, i32 beyond.
DType token_dtype(int64_t vocab_size);

struct TokenShardOptions {
  DType dtype = DType::kU16;  ///< kU16 or kI32
  int64_t vocab_size = 0;     ///< every id is below it
  uint64_t vocab_hash = 0;    ///< Tokenizer::vocab_hash
  bool sync = false;          ///< wait for the disk before the file gets its name
};

/// Writes one shard, document by document. Memory stays flat: documents may be as many as the disk holds.
class TokenShardWriter {
 public:
  /// Creates PATH.tmp (and PATH.starts.tmp). Error kUsage where the vocabulary does not fit the dtype.
  TokenShardWriter(std::string path, TokenShardOptions options);
  /// Removes the temporary files where finish() was not reached.
  ~TokenShardWriter();
  TokenShardWriter(const TokenShardWriter&) = delete;

  /// One document; an empty one is skipped. Throws Error kMismatch naming id, document and limit where an id is not in
  /// the vocabulary (nothing of that document is written then), kNoSpace, kIo.
  void append(std::span<const int32_t> document);
  /// More tokens of the document that append() began last, for documents too long to hold; without one, its first.
  /// Throws as append().
  void extend(std::span<const int32_t> tokens);
  int64_t token_count() const { return tokens_; }
  int64_t document_count() const { return documents_; }
  /// Completes the file and gives it its name.
  void finish();

 private:
  void check_ids(std::span<const int32_t> tokens, int64_t document) const;
  void put(std::span<const int32_t> tokens);
  std::string path_;
  TokenShardOptions options_;
  std::unique_ptr<FileWriter> file_, starts_;
  Hasher token_hash_, start_hash_;
  std::vector<uint16_t> narrow_;  // a piece of a document as u16
  int64_t tokens_ = 0, documents_ = 0;
};

/// What a shard's bytes are, checked against their number.
struct TokenShardLayout {
  enum class Kind { kOwn, kNanoGpt, kLlmC };
  Kind kind = Kind::kOwn;
  DType dtype = DType::kU16;
  int64_t vocab_size = 0;  ///< 0: the format does not say
  uint64_t vocab_hash = 0;
  int64_t token_count = 0, document_count = 0;
  uint64_t tokens_begin = 0, starts_begin = 0;  ///< bytes
  uint64_t token_checksum = 0, start_checksum = 0;
};

/// Reads and checks the header and the document starts of a whole shard in memory, 8-byte aligned. `what` names it in
/// errors; `raw` says that bytes without a known magic are nanoGPT's. Throws Error kBadData, kUnsupported.
TokenShardLayout parse_token_shard(std::span<const std::byte> file, const std::string& what, bool raw);

/// "own", "nanogpt", "llm.c"
const char* token_shard_kind_name(TokenShardLayout::Kind kind);

/// One shard, mapped.
class TokenShard {
 public:
  static TokenShard open(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const TokenShardLayout& layout() const { return layout_; }
  int64_t token_count() const { return layout_.token_count; }
  int64_t vocab_size() const { return layout_.vocab_size; }
  uint64_t vocab_hash() const { return layout_.vocab_hash; }

  /// Tokens [begin, begin + count), which lie within the shard, as i32. An id that is not below `id_limit` (0: the
  /// vocabulary's size, where known) is an Error kBadData naming id and place.
  void read(int64_t begin, int64_t count, int32_t* out, int64_t id_limit = 0) const;
  /// First token of each document, ascending from 0; empty where the format does not record them.
  std::span<const uint64_t> document_starts() const;
  /// Reads everything and compares the checksums and the ids. Error kBadData. Foreign shards have no checksums.
  void verify() const;

 private:
  const std::byte* tokens() const { return file_.bytes().data() + layout_.tokens_begin; }
  MappedFile file_;
  TokenShardLayout layout_;
};

}  // namespace espalier
