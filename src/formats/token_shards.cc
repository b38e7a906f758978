#include "formats/token_shards.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>

#include "base/check.h"
#include "base/error.h"

namespace espalier {
namespace {

constexpr int64_t kMaxU16Vocab = 65536;
constexpr int64_t kPiece = 1 << 16;  // tokens handled at a time
constexpr char kMagic[8] = {'E', 'S', 'P', 'T', 'O', 'K', 'E', 'N'};
constexpr uint32_t kVersion = 1;

// As in docs/formats/token_shards.md.
struct Header {
  char magic[8];
  uint32_t version, header_bytes, token_bytes, zero;
  uint64_t vocab_size, vocab_hash, token_count, document_count, token_checksum, start_checksum;
  uint64_t zeros[6];
  uint64_t checksum;
};
static_assert(sizeof(Header) == 128 && offsetof(Header, checksum) == 120);

// llm.c's dev/data/data_common.py: 256 i32, of which three are used.
struct LlmcRow {
  int32_t magic, version;
  DType dtype;
};
constexpr LlmcRow kLlmcRows[] = {{20240520, 1, DType::kU16}, {20240801, 7, DType::kI32}};
constexpr uint64_t kLlmcHeaderBytes = 256 * 4;

uint64_t padded(uint64_t bytes) { return (bytes + 7) / 8 * 8; }

Error wrong_size(const std::string& what, uint64_t found, const std::string& expected) {
  return error(Code::kBadData,
               "reading the token shard {}: {} bytes, but its header says {}; it is truncated or damaged", what, found,
               expected);
}

/// Bytes that `header` says the file has, or nothing where they overflow.
bool own_file_bytes(const Header& header, uint64_t* bytes) {
  uint64_t tokens = 0, starts = 0;
  if (__builtin_mul_overflow(header.token_count, uint64_t{header.token_bytes}, &tokens)) return false;
  if (tokens > std::numeric_limits<uint64_t>::max() / 4) return false;  // room for the padding and the header
  if (__builtin_mul_overflow(header.document_count, uint64_t{8}, &starts)) return false;
  return !__builtin_add_overflow(sizeof(Header) + padded(tokens), starts, bytes);
}

void check_starts(std::span<const uint64_t> starts, const Header& header, const std::string& what) {
  if (starts.empty() != (header.token_count == 0) || (!starts.empty() && starts[0] != 0))
    throw error(Code::kBadData, "reading the token shard {}: its first document does not start at token 0", what);
  for (size_t i = 1; i < starts.size(); ++i)
    if (starts[i] <= starts[i - 1] || starts[i] >= header.token_count)
      throw error(Code::kBadData, "reading the token shard {}: document {} starts at token {}, after {} of {}", what, i,
                  starts[i], starts[i - 1], header.token_count);
}

void check_own_header(const Header& header, const std::string& what) {
  if (header.version != kVersion || header.header_bytes != sizeof(Header))
    throw error(Code::kUnsupported, "reading the token shard {}: version {}; this program reads version {}", what,
                header.version, kVersion);
  if (hash64(&header, offsetof(Header, checksum)) != header.checksum)
    throw error(Code::kBadData, "reading the token shard {}: its header is damaged (checksum); prepare it again", what);
  const bool narrow = header.token_bytes == 2;
  const uint64_t max_vocab = narrow ? uint64_t(kMaxU16Vocab) : uint64_t(std::numeric_limits<int32_t>::max());
  if ((!narrow && header.token_bytes != 4) || header.vocab_size == 0 || header.vocab_size > max_vocab)
    throw error(Code::kBadData, "reading the token shard {}: {} bytes a token and a vocabulary of {} do not fit", what,
                header.token_bytes, header.vocab_size);
}

TokenShardLayout parse_own(std::span<const std::byte> file, const std::string& what) {
  Header header;
  if (file.size() < sizeof header) throw wrong_size(what, file.size(), "at least 128");
  std::memcpy(&header, file.data(), sizeof header);
  check_own_header(header, what);
  uint64_t bytes = 0;
  if (!own_file_bytes(header, &bytes) || bytes != file.size())
    throw wrong_size(what, file.size(), fmt::format("{} tokens of {} bytes and {} documents", header.token_count,
                                                    header.token_bytes, header.document_count));
  TokenShardLayout layout;
  layout.dtype = header.token_bytes == 2 ? DType::kU16 : DType::kI32;
  layout.vocab_size = int64_t(header.vocab_size);
  layout.vocab_hash = header.vocab_hash;
  layout.token_count = int64_t(header.token_count);
  layout.document_count = int64_t(header.document_count);
  layout.tokens_begin = sizeof header;
  layout.starts_begin = sizeof header + padded(header.token_count * header.token_bytes);
  layout.token_checksum = header.token_checksum;
  layout.start_checksum = header.start_checksum;
  const auto* starts = reinterpret_cast<const uint64_t*>(file.data() + layout.starts_begin);
  check_starts({starts, size_t(header.document_count)}, header, what);
  return layout;
}

TokenShardLayout parse_llmc(std::span<const std::byte> file, const std::string& what, const LlmcRow& row) {
  int32_t header[3];
  if (file.size() < kLlmcHeaderBytes) throw wrong_size(what, file.size(), "at least 1024");
  std::memcpy(header, file.data(), sizeof header);
  if (header[1] != row.version)
    throw error(Code::kUnsupported, "reading the llm.c token shard {}: version {}; expected {} with magic {}", what,
                header[1], row.version, row.magic);
  const uint64_t expected = uint64_t(std::max(header[2], 0)) * uint64_t(dtype_size(row.dtype)) + kLlmcHeaderBytes;
  if (header[2] < 0 || expected != file.size())
    throw wrong_size(what, file.size(), fmt::format("{} tokens", header[2]));
  TokenShardLayout layout;
  layout.kind = TokenShardLayout::Kind::kLlmC;
  layout.dtype = row.dtype;
  layout.token_count = header[2];
  layout.tokens_begin = kLlmcHeaderBytes;
  layout.starts_begin = file.size();
  return layout;
}

/// Widens and returns the largest id, as unsigned, so that a negative one is large.
template <class T>
uint32_t widen(const std::byte* from, int64_t count, int32_t* out) {
  const T* tokens = reinterpret_cast<const T*>(from);
  uint32_t largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    out[i] = int32_t(tokens[i]);
    largest = std::max(largest, uint32_t(out[i]));
  }
  return largest;
}

}  // namespace

DType token_dtype(int64_t vocab_size) { return vocab_size <= kMaxU16Vocab ? DType::kU16 : DType::kI32; }

TokenShardWriter::TokenShardWriter(std::string path, TokenShardOptions options)
    : path_(std::move(path)), options_(options) {
  ESP_CHECK(options_.dtype == DType::kU16 || options_.dtype == DType::kI32, "dtype {}", dtype_name(options_.dtype));
  const int64_t max_vocab =
      options_.dtype == DType::kU16 ? kMaxU16Vocab : int64_t{std::numeric_limits<int32_t>::max()};
  if (options_.vocab_size < 1 || options_.vocab_size > max_vocab)
    throw error(Code::kUsage, "writing the token shard {}: a vocabulary of {} as {}; that dtype holds 1 to {}{}", path_,
                options_.vocab_size, dtype_name(options_.dtype), max_vocab,
                options_.dtype == DType::kU16 ? ", use i32" : "");
  file_ = std::make_unique<FileWriter>(path_ + ".tmp");
  starts_ = std::make_unique<FileWriter>(path_ + ".starts.tmp");
  const Header nothing{};
  file_->write(&nothing, sizeof nothing);
}

TokenShardWriter::~TokenShardWriter() {
  if (!file_) return;
  ::unlink((path_ + ".tmp").c_str());
  ::unlink((path_ + ".starts.tmp").c_str());
}

void TokenShardWriter::check_ids(std::span<const int32_t> tokens, int64_t document) const {
  for (size_t i = 0; i < tokens.size(); ++i)
    if (uint32_t(tokens[i]) >= uint64_t(options_.vocab_size))
      throw error(Code::kMismatch,
                  "writing the token shard {}: id {} (token {} of document {}) is not below the vocabulary's size of "
                  "{}; the shard and the tokenizer do not belong together", path_, tokens[i], i, document,
                  options_.vocab_size);
}

void TokenShardWriter::put(std::span<const int32_t> tokens) {
  const auto write = [&](const void* data, size_t bytes) {
    file_->write(data, bytes);
    token_hash_.update(data, bytes);
  };
  if (options_.dtype == DType::kI32) write(tokens.data(), tokens.size_bytes());
  for (size_t i = 0; options_.dtype == DType::kU16 && i < tokens.size(); i += kPiece) {
    const auto piece = tokens.subspan(i, std::min<size_t>(kPiece, tokens.size() - i));
    narrow_.assign(piece.begin(), piece.end());
    write(narrow_.data(), narrow_.size() * sizeof(uint16_t));
  }
  tokens_ += int64_t(tokens.size());
}

void TokenShardWriter::append(std::span<const int32_t> document) {
  if (document.empty()) return;
  check_ids(document, documents_);
  const uint64_t start = uint64_t(tokens_);
  starts_->write(&start, sizeof start);
  start_hash_.update(&start, sizeof start);
  put(document);
  ++documents_;
}

void TokenShardWriter::extend(std::span<const int32_t> tokens) {
  if (documents_ == 0) return append(tokens);
  check_ids(tokens, documents_ - 1);
  put(tokens);
}

void TokenShardWriter::finish() {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.header_bytes = sizeof header;
  header.token_bytes = uint32_t(dtype_size(options_.dtype));
  header.vocab_size = uint64_t(options_.vocab_size);
  header.vocab_hash = options_.vocab_hash;
  header.token_count = uint64_t(tokens_);
  header.document_count = uint64_t(documents_);
  header.token_checksum = token_hash_.digest();
  header.start_checksum = start_hash_.digest();
  header.checksum = hash64(&header, offsetof(Header, checksum));
  const char zeros[8] = {};
  file_->write(zeros, padded(file_->size()) - file_->size());
  starts_->close(false);
  const std::string starts_path = path_ + ".starts.tmp";
  const MappedFile starts(starts_path);
  file_->write(starts.bytes().data(), starts.size());
  file_->write_at(0, &header, sizeof header);
  file_->close(options_.sync);
  if (std::rename((path_ + ".tmp").c_str(), path_.c_str()) != 0) throw errno_error("renaming " + path_ + ".tmp");
  file_.reset();
  ::unlink(starts_path.c_str());
  const std::string folder = std::filesystem::path(path_).parent_path();
  if (options_.sync) sync_folder(folder.empty() ? "." : folder);
}

TokenShardLayout parse_token_shard(std::span<const std::byte> file, const std::string& what, bool raw) {
  int32_t magic = 0;
  const bool own = file.size() >= sizeof kMagic && std::memcmp(file.data(), kMagic, sizeof kMagic) == 0;
  if (own) return parse_own(file, what);
  if (file.size() >= sizeof magic) std::memcpy(&magic, file.data(), sizeof magic);
  for (const LlmcRow& row : kLlmcRows)
    if (magic == row.magic) return parse_llmc(file, what, row);
  if (!raw || file.size() % 2 != 0)
    throw error(Code::kBadData,
                "reading the token shard {}: {} bytes without a known magic; expected Espalier's, llm.c's or, named "
                ".bin, nanoGPT's u16", what, file.size());
  TokenShardLayout layout;
  layout.kind = TokenShardLayout::Kind::kNanoGpt;
  layout.token_count = int64_t(file.size() / 2);
  layout.starts_begin = file.size();
  return layout;
}

const char* token_shard_kind_name(TokenShardLayout::Kind kind) {
  constexpr const char* kNames[] = {"own", "nanogpt", "llm.c"};
  return kNames[int(kind)];
}

TokenShard TokenShard::open(const std::string& path) {
  TokenShard shard;
  shard.file_ = MappedFile(path);
  shard.layout_ = parse_token_shard(shard.file_.bytes(), path, path.ends_with(".bin"));
  return shard;
}

void TokenShard::read(int64_t begin, int64_t count, int32_t* out, int64_t id_limit) const {
  ESP_CHECK(begin >= 0 && count >= 0 && begin <= token_count() && count <= token_count() - begin,
            "tokens {}+{} of {} in {}", begin, count, token_count(), path());
  const std::byte* from = tokens() + begin * dtype_size(layout_.dtype);
  const uint32_t largest =
      layout_.dtype == DType::kU16 ? widen<uint16_t>(from, count, out) : widen<int32_t>(from, count, out);
  const int64_t known = vocab_size() > 0 ? vocab_size() : int64_t{std::numeric_limits<int32_t>::max()};
  const int64_t limit = id_limit > 0 ? std::min(id_limit, known) : known;
  if (count == 0 || largest < limit) return;
  const int64_t at = std::find_if(out, out + count, [&](int32_t id) { return uint32_t(id) >= limit; }) - out;
  throw error(Code::kBadData,
              "reading the token shard {}: id {} at token {} is not below the vocabulary's size of {}; the shard is "
              "damaged or was made for another tokenizer", path(), out[at], begin + at, limit);
}

std::span<const uint64_t> TokenShard::document_starts() const {
  const std::byte* starts = file_.bytes().data() + layout_.starts_begin;
  return {reinterpret_cast<const uint64_t*>(starts), size_t(layout_.document_count)};
}

void TokenShard::verify() const {
  std::vector<int32_t> piece(kPiece);
  for (int64_t i = 0; i < token_count(); i += kPiece) read(i, std::min(kPiece, token_count() - i), piece.data());
  if (layout_.kind != TokenShardLayout::Kind::kOwn) return;
  const uint64_t found = hash64(tokens(), size_t(token_count() * dtype_size(layout_.dtype)));
  const std::span<const uint64_t> starts = document_starts();
  if (found != layout_.token_checksum || hash64(starts.data(), starts.size_bytes()) != layout_.start_checksum)
    throw error(Code::kBadData,
                "verifying the token shard {}: its contents do not match their checksum; prepare it again", path());
}

}  // namespace espalier
