#include "formats/token_shards.h"

#include <cstring>
#include <numeric>

#include "formats/test_folder.h"
#include "formats/token_dataset.h"

namespace espalier {
namespace {

using Document = std::vector<int32_t>;

void write_shard(const std::string& path, const std::vector<Document>& documents, TokenShardOptions options) {
  TokenShardWriter writer(path, options);
  for (const Document& document : documents) writer.append(document);
  writer.finish();
}

std::vector<int32_t> all_tokens(const TokenShard& shard) {
  std::vector<int32_t> tokens(size_t(shard.token_count()));
  shard.read(0, shard.token_count(), tokens.data());
  return tokens;
}

std::string bytes_of(const std::vector<int32_t>& header, size_t header_ints, const std::string& tokens) {
  std::vector<int32_t> ints = header;
  ints.resize(header_ints);
  return std::string(reinterpret_cast<const char*>(ints.data()), ints.size() * 4) + tokens;
}

TEST(TokenShard, KeepsDocumentsOfBothDtypes) {
  const TestFolder folder;
  for (DType dtype : {DType::kU16, DType::kI32}) {
    const std::string path = folder / dtype_name(dtype);
    write_shard(path, {{1, 2, 3}, {}, {65535}, {4, 0}}, {.dtype = dtype, .vocab_size = 65536, .vocab_hash = 77});
    const TokenShard shard = TokenShard::open(path);
    EXPECT_EQ(all_tokens(shard), (Document{1, 2, 3, 65535, 4, 0}));
    const auto starts = shard.document_starts();
    EXPECT_EQ(std::vector<uint64_t>(starts.begin(), starts.end()), (std::vector<uint64_t>{0, 3, 4}));
    EXPECT_EQ(shard.vocab_size(), 65536);
    EXPECT_EQ(shard.vocab_hash(), 77u);
    EXPECT_STREQ(token_shard_kind_name(shard.layout().kind), "own");
    int32_t two[2];
    shard.read(3, 2, two);
    EXPECT_EQ(two[0], 65535);
    EXPECT_EQ(two[1], 4);
    EXPECT_NO_THROW(shard.verify());
  }
  // Only the shards are left, without temporary files.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 2);
}

TEST(TokenShard, LongDocumentsAndNone) {
  const TestFolder folder;
  Document longer(200'001);
  std::iota(longer.begin(), longer.end(), 0);
  for (int32_t& id : longer) id %= 50'000;
  write_shard(folder / "long", {longer, {7}}, {.vocab_size = 50'000});
  EXPECT_EQ(TokenShard::open(folder / "long").document_starts()[1], 200'001u);
  longer.push_back(7);
  EXPECT_EQ(all_tokens(TokenShard::open(folder / "long")), longer);
  write_shard(folder / "none", {}, {.vocab_size = 1});
  EXPECT_EQ(TokenShard::open(folder / "none").token_count(), 0);
  EXPECT_NO_THROW(TokenShard::open(folder / "none").verify());
}

TEST(TokenShard, ADocumentMayComeInParts) {
  const TestFolder folder;
  {
    TokenShardWriter writer(folder / "parts", {.vocab_size = 10});
    writer.extend(Document{1});  // begins the first
    writer.extend(Document{2, 3});
    writer.append(Document{4});
    writer.extend(Document{5});
    expect_error(Code::kMismatch, "id 10 (token 1 of document 1)", [&] { writer.extend(Document{5, 10}); });
    writer.finish();
  }
  write_shard(folder / "whole", {{1, 2, 3}, {4, 5}}, {.vocab_size = 10});
  EXPECT_EQ(read_file(folder / "parts"), read_file(folder / "whole"));
}

TEST(TokenShard, VocabulariesAroundSixteenBits) {
  const TestFolder folder;
  EXPECT_EQ(token_dtype(65'535), DType::kU16);
  EXPECT_EQ(token_dtype(65'536), DType::kU16);
  EXPECT_EQ(token_dtype(65'537), DType::kI32);
  for (int64_t vocab : {65'535, 65'536, 65'537}) {
    const std::string path = folder / std::to_string(vocab);
    TokenShardWriter writer(path, {.dtype = token_dtype(vocab), .vocab_size = vocab});
    writer.append(Document{0, int32_t(vocab - 1)});
    const auto append = [&](int32_t id) { writer.append(Document{5, id}); };
    expect_error(Code::kMismatch, "id " + std::to_string(vocab) + " (token 1 of document 1)",
                 [&] { append(int32_t(vocab)); });
    expect_error(Code::kMismatch, "size of " + std::to_string(vocab), [&] { append(-1); });
    expect_error(Code::kMismatch, "id -2147483648", [&] { append(std::numeric_limits<int32_t>::min()); });
    writer.finish();
    EXPECT_EQ(all_tokens(TokenShard::open(path)), (Document{0, int32_t(vocab - 1)}));
  }
  const auto open = [&](DType dtype, int64_t vocab) {
    TokenShardWriter(folder / "x", {.dtype = dtype, .vocab_size = vocab});
  };
  expect_error(Code::kUsage, "a vocabulary of 65537 as u16; that dtype holds 1 to 65536, use i32",
               [&] { open(DType::kU16, 65'537); });
  expect_error(Code::kUsage, "1 to 2147483647", [&] { open(DType::kI32, int64_t{1} << 31); });
  expect_error(Code::kUsage, "a vocabulary of 0", [&] { open(DType::kU16, 0); });
  EXPECT_FALSE(std::filesystem::exists(folder / "x.tmp"));
}

TEST(TokenShard, EveryDamageIsFound) {
  const TestFolder folder;
  const std::string path = folder / "x.tokens";
  write_shard(path, {{1, 2, 3}, {4, 5}}, {.vocab_size = 10, .vocab_hash = 1});
  const std::string whole = read_file(path);
  ASSERT_EQ(whole.size(), 128u + 16 + 16);
  for (size_t size = 0; size < whole.size(); ++size) {
    put_file(path, whole.substr(0, size));
    EXPECT_THROW(TokenShard::open(path), Error) << size << " bytes of it";
  }
  put_file(path, whole + "x");
  expect_error(Code::kBadData, "truncated or damaged", [&] { TokenShard::open(path); });
  for (size_t i = 0; i < whole.size() * 8; ++i) {
    std::string damaged = whole;
    damaged[i / 8] ^= char(1 << i % 8);
    put_file(path, damaged);
    // The six bytes that pad the tokens mean nothing and are covered by no checksum.
    if (i / 8 >= 138 && i / 8 < 144) continue;
    EXPECT_THROW(TokenShard::open(path).verify(), Error) << "bit " << i;
  }
}

TEST(TokenShard, ALyingHeaderWithARightChecksumIsRefused) {
  const TestFolder folder;
  const std::string path = folder / "x.tokens";
  write_shard(path, {{1, 2, 3}, {4, 5}}, {.vocab_size = 10});
  const std::string whole = read_file(path);
  const auto with = [&](size_t offset, uint64_t value, size_t bytes) {
    std::string lying = whole;
    std::memcpy(lying.data() + offset, &value, bytes);
    const uint64_t checksum = hash64(lying.data(), 120);
    std::memcpy(lying.data() + 120, &checksum, 8);
    put_file(path, lying);
    TokenShard::open(path);
  };
  expect_error(Code::kUnsupported, "version 2", [&] { with(8, 2, 4); });
  expect_error(Code::kBadData, "3 bytes a token", [&] { with(16, 3, 4); });
  expect_error(Code::kBadData, "do not fit", [&] { with(24, 65'537, 8); });
  for (uint64_t count : {uint64_t{4}, uint64_t{9}, uint64_t{1} << 62, uint64_t{1} << 63, ~uint64_t{0}})
    for (size_t field : {40, 48})
      expect_error(Code::kBadData, "truncated or damaged", [&] { with(field, count, 8); });
  expect_error(Code::kBadData, "document 1 starts at token 5", [&] { with(152, 5, 8); });
  expect_error(Code::kBadData, "document 1 starts at token 0", [&] { with(152, 0, 8); });
  expect_error(Code::kBadData, "does not start at token 0", [&] { with(144, 1, 8); });
}

TEST(TokenShard, ReadsNanoGptAndLlmC) {
  const TestFolder folder;
  const std::string u16("\x01\0\xff\xff\x00\x01", 6), u32("\x01\0\0\0\xff\xf4\x01\0", 8);
  put_file(folder / "nano.bin", u16);
  put_file(folder / "gpt2.bin", bytes_of({20240520, 1, 3}, 256, u16));
  put_file(folder / "llama3.bin", bytes_of({20240801, 7, 2}, 256, u32));
  EXPECT_EQ(all_tokens(TokenShard::open(folder / "nano.bin")), (Document{1, 65535, 256}));
  EXPECT_EQ(all_tokens(TokenShard::open(folder / "gpt2.bin")), (Document{1, 65535, 256}));
  EXPECT_EQ(all_tokens(TokenShard::open(folder / "llama3.bin")), (Document{1, 128'255}));
  EXPECT_TRUE(TokenShard::open(folder / "gpt2.bin").document_starts().empty());
  EXPECT_NO_THROW(TokenShard::open(folder / "gpt2.bin").verify());
  int32_t out[3];
  expect_error(Code::kBadData, "id 65535 at token 1 is not below the vocabulary's size of 50257",
               [&] { TokenShard::open(folder / "gpt2.bin").read(0, 3, out, 50'257); });

  const auto refuse = [&](Code code, const std::string& part, const std::string& bytes) {
    put_file(folder / "bad.bin", bytes);
    expect_error(code, part, [&] { TokenShard::open(folder / "bad.bin").verify(); });
  };
  refuse(Code::kBadData, "without a known magic", "odd");
  refuse(Code::kBadData, "says 4 tokens", bytes_of({20240520, 1, 4}, 256, u16));
  refuse(Code::kBadData, "says -1 tokens", bytes_of({20240520, 1, -1}, 256, u16));
  refuse(Code::kBadData, "at least 1024", bytes_of({20240520, 1, 4}, 8, u16));
  refuse(Code::kUnsupported, "version 2", bytes_of({20240520, 2, 3}, 256, u16));
  refuse(Code::kBadData, "id -1 at token 0", bytes_of({20240801, 7, 1}, 256, "\xff\xff\xff\xff"));
  put_file(folder / "text", "ab");
  expect_error(Code::kBadData, "without a known magic", [&] { TokenShard::open(folder / "text"); });
}

TEST(TokenShard, AnUnfinishedShardLeavesNothing) {
  const TestFolder folder;
  {
    TokenShardWriter writer(folder / "x.tokens", {.vocab_size = 10});
    writer.append(Document{1, 2});
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(TokenDataset, ManyShardsAreOneSequence) {
  const TestFolder folder;
  const TokenShardOptions options{.vocab_size = 100, .vocab_hash = 5};
  write_shard(folder / "b-1.tokens", {{0, 1, 2}, {3}}, options);
  write_shard(folder / "b-2.tokens", {}, options);
  write_shard(folder / "b-3.tokens", {{4, 5}, {6, 7, 8}}, options);
  put_file(folder / "readme", "not a shard");
  for (const std::string& source : {folder.path(), folder / "b-*.tokens", folder / "b-[123].tokens"}) {
    const TokenDataset dataset = TokenDataset::open(source);
    ASSERT_EQ(dataset.token_count(), 9);
    const int64_t starts[] = {0, 0, 0, 3, 4, 4, 6, 6, 6};
    std::vector<int32_t> out(9);
    std::vector<int64_t> within;
    for (int64_t begin = 0; begin < 9; ++begin) {
      EXPECT_EQ(dataset.document_start_of(begin), starts[begin]);
      for (int64_t count = 0; begin + count <= 9; ++count) {
        dataset.read(begin, count, out.data());
        for (int64_t i = 0; i < count; ++i) EXPECT_EQ(out[size_t(i)], begin + i);
        std::vector<int64_t> expected;
        for (int64_t start : {0, 3, 4, 6})
          if (start >= begin && start < begin + count) expected.push_back(start);
        dataset.document_starts_in(begin, count, within);
        EXPECT_EQ(within, expected) << begin << "+" << count;
      }
    }
    EXPECT_NO_THROW(dataset.verify());
  }
}

TEST(TokenDataset, ForeignShardsAreOneDocumentEach) {
  const TestFolder folder;
  put_file(folder / "train_1.bin", std::string("\1\0\2\0", 4));
  put_file(folder / "train_2.bin", std::string("\3\0\4\0", 4));
  const TokenDataset dataset = TokenDataset::open(folder / "train_*.bin", 4);
  std::vector<int64_t> starts;
  dataset.document_starts_in(1, 3, starts);
  EXPECT_EQ(starts, std::vector<int64_t>{2});
  EXPECT_EQ(dataset.document_start_of(3), 2);
  int32_t out[4];
  dataset.read(0, 3, out);
  expect_error(Code::kBadData, "id 4 at token 1", [&] { dataset.read(0, 4, out); });
}

TEST(TokenDataset, ShardsThatDoNotBelongTogetherAreRefused) {
  const TestFolder folder;
  const auto open = [&] { TokenDataset::open(folder.path()); };
  expect_error(Code::kNotFound, "no *.tokens in this folder", open);
  expect_error(Code::kNotFound, "no file matches", [&] { TokenDataset::open(folder / "*.tokens"); });
  write_shard(folder / "1.tokens", {{1}}, {.vocab_size = 100, .vocab_hash = 5});
  write_shard(folder / "2.tokens", {{1}}, {.vocab_size = 100, .vocab_hash = 6});
  expect_error(Code::kMismatch, "different tokenizers", open);
  write_shard(folder / "2.tokens", {{1}}, {.vocab_size = 101, .vocab_hash = 5});
  expect_error(Code::kMismatch, "different tokenizers", open);
  expect_error(Code::kMismatch, "the model one of 99", [&] { TokenDataset::open(folder / "1.tokens", 99); });
}

}  // namespace
}  // namespace espalier
