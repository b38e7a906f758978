#include "formats/gguf.h"

#include <cstring>

#include "formats/gguf_writer.h"
#include "formats/test_folder.h"

namespace espalier {
namespace {

void append(std::string& bytes, const auto& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

std::string text_of(std::string_view text) {
  std::string bytes;
  append(bytes, uint64_t{text.size()});
  return bytes + std::string(text);
}

/// A pair with a u32.
std::string pair_u32(std::string_view key, uint32_t value) {
  std::string bytes = text_of(key);
  append(bytes, uint32_t{4});
  append(bytes, value);
  return bytes;
}

/// A pair whose type and value are given as bytes.
std::string pair_of(std::string_view key, uint32_t type, std::string_view value) {
  std::string bytes = text_of(key);
  append(bytes, type);
  return bytes + std::string(value);
}

std::string tensor_of(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type, uint64_t offset) {
  std::string bytes = text_of(name);
  append(bytes, uint32_t(dims.size()));
  for (const uint64_t dim : dims) append(bytes, dim);
  append(bytes, type);
  append(bytes, offset);
  return bytes;
}

/// A file by hand, independent of the writer.
struct Draft {
  std::vector<std::string> pairs, tensors;
  size_t data_bytes = 0;
  uint32_t version = 3;
  std::optional<uint64_t> pair_count = {}, tensor_count = {};  // what the file claims
  uint64_t alignment = 32;

  std::string bytes() const {
    std::string file = "GGUF";
    append(file, version);
    append(file, tensor_count.value_or(tensors.size()));
    append(file, pair_count.value_or(pairs.size()));
    for (const std::string& pair : pairs) file += pair;
    for (const std::string& tensor : tensors) file += tensor;
    file.append((alignment - file.size() % alignment) % alignment, '\0');
    for (size_t i = 0; i < data_bytes; ++i) file += char(i);
    return file;
  }
};

GgufHeader parse(const std::string& file) { return parse_gguf_header(std::as_bytes(std::span(file)), "x.gguf"); }

void expect_refused(Code code, const std::string& part, const Draft& draft) {
  const std::string file = draft.bytes();
  expect_error(code, part, [&] { parse(file); });
}

std::string golden_path() { return std::string(ESP_SOURCE_DIR) + "/tests/golden/gguf/blocks.gguf"; }

TEST(GgufHeader, ReadsPairsAndTensors) {
  for (const uint32_t version : {2u, 3u}) {
    const std::string file = Draft{.pairs = {pair_u32("a.b", 7), pair_u32("general.alignment", 64)},
                                   .tensors = {tensor_of("w", {3, 2}, 0, 0), tensor_of("q", {64, 5}, 8, 64),
                                               tensor_of("s", {}, 0, 448), tensor_of("empty", {0, 7}, 0, 0)},
                                   .data_bytes = 452,
                                   .version = version,
                                   .alignment = 64}
                                 .bytes();
    const GgufHeader header = parse(file);
    EXPECT_EQ(header.version, version);
    EXPECT_EQ(header.alignment, 64u);
    EXPECT_EQ(header.metadata.integer("a.b"), 7);
    EXPECT_EQ(header.metadata.keys(), (std::vector<std::string_view>{"a.b", "general.alignment"}));
    ASSERT_EQ(header.tensors.size(), 4u);
    EXPECT_EQ(header.tensors[0].shape.text(), "[2, 3]");
    EXPECT_EQ(header.tensors[0].begin, header.data_begin);
    EXPECT_EQ(header.tensors[1].type, GgmlType::kQ8_0);
    EXPECT_EQ(header.tensors[1].bytes, 10u * 34);
    EXPECT_EQ(header.tensors[2].bytes, 4u);
    EXPECT_EQ(header.tensors[3].bytes, 0u);
  }
  const std::string empty = Draft{}.bytes();
  EXPECT_TRUE(parse(empty).tensors.empty());
}

TEST(GgufHeader, RefusesWhatIsNoGguf) {
  expect_error(Code::kBadData, "no GGUF file", [] { parse(""); });
  expect_error(Code::kBadData, "no GGUF file", [] { parse("GGU"); });
  expect_error(Code::kBadData, "no GGUF file", [] { parse("GGML and more of it"); });
  expect_refused(Code::kUnsupported, "version 1", {.version = 1});
  expect_refused(Code::kBadData, "version 4", {.version = 4});
  expect_refused(Code::kUnsupported, "big-endian", {.version = 0x03000000});
}

TEST(GgufHeader, RefusesLyingCounts) {
  for (const uint64_t count : {uint64_t{100}, uint64_t{1} << 32, uint64_t{1} << 61, ~uint64_t{0}}) {
    expect_refused(Code::kBadData, "metadata pairs, more than", {.pair_count = count});
    expect_refused(Code::kBadData, "tensors, more than", {.data_bytes = 64, .tensor_count = count});
  }
}

TEST(GgufHeader, RefusesLyingMetadata) {
  std::string long_text, array, nested, wrong_element;
  append(long_text, ~uint64_t{0});
  append(array, uint32_t{8});
  append(array, uint64_t{1} << 61);
  append(nested, uint32_t{9});
  append(nested, uint64_t{1});
  append(wrong_element, uint32_t{13});
  expect_refused(Code::kBadData, "metadata 'k' takes", {.pairs = {pair_of("k", 8, long_text)}});
  expect_refused(Code::kBadData, "claims 2305843009213693952 elements", {.pairs = {pair_of("k", 9, array)}});
  expect_refused(Code::kUnsupported, "array of arrays", {.pairs = {pair_of("k", 9, nested)}});
  expect_refused(Code::kBadData, "type of metadata 'k' is 13", {.pairs = {pair_of("k", 9, wrong_element)}});
  expect_refused(Code::kBadData, "type of metadata 'k' is 77", {.pairs = {pair_of("k", 77, "")}});
  expect_refused(Code::kBadData, "bool of value 2", {.pairs = {pair_of("k", 7, "\x02")}});
  expect_refused(Code::kBadData, "'k' is there twice", {.pairs = {pair_u32("k", 1), pair_u32("k", 1)}});
}

TEST(GgufHeader, RefusesBadAlignments) {
  for (const uint32_t alignment : {0u, 1u, 4u, 24u, 33u, 1u << 17, 1u << 31, ~0u})
    expect_refused(Code::kBadData, "power of two", {.pairs = {pair_u32("general.alignment", alignment)}});
  expect_refused(Code::kBadData, "expected an integer",
                 {.pairs = {pair_of("general.alignment", 8, text_of("32"))}});
}

TEST(GgufHeader, RefusesLyingTensors) {
  const auto refused = [](Code code, const std::string& part, std::vector<std::string> tensors) {
    expect_refused(code, part, {.tensors = std::move(tensors), .data_bytes = 64});
  };
  const uint64_t large = uint64_t{1} << 32;
  refused(Code::kBadData, "5 dimensions", {tensor_of("w", {1, 1, 1, 1, 1}, 0, 0)});
  refused(Code::kBadData, "larger than any memory", {tensor_of("w", {large, large}, 0, 0)});
  refused(Code::kBadData, "larger than any memory", {tensor_of("w", {~uint64_t{0}}, 0, 0)});
  refused(Code::kBadData, "larger than any memory", {tensor_of("w", {uint64_t{1} << 62}, 0, 0)});
  refused(Code::kUnsupported, "type 4,", {tensor_of("w", {1}, 4, 0)});
  refused(Code::kUnsupported, "not known", {tensor_of("w", {1}, ~0u, 0)});
  refused(Code::kBadData, "blocks of 32", {tensor_of("w", {33}, 8, 0)});
  refused(Code::kBadData, "no multiple of the alignment", {tensor_of("w", {1}, 0, 4)});
  refused(Code::kBadData, "of a data section of 64 bytes", {tensor_of("w", {17}, 0, 0)});
  refused(Code::kBadData, "of a data section of 64 bytes", {tensor_of("w", {1}, 0, 64)});
  refused(Code::kBadData, "of a data section of 64 bytes", {tensor_of("w", {1}, 0, ~uint64_t{31})});
  refused(Code::kBadData, "overlap", {tensor_of("w", {9}, 0, 0), tensor_of("v", {1}, 0, 32)});
  refused(Code::kBadData, "overlap", {tensor_of("w", {1}, 0, 0), tensor_of("v", {1}, 0, 0)});
  refused(Code::kBadData, "'w' is there twice", {tensor_of("w", {1}, 0, 0), tensor_of("w", {1}, 0, 32)});
}

TEST(GgufHeader, RefusesEveryCut) {
  const std::string file = Draft{.pairs = {pair_u32("a", 7), pair_of("b", 8, text_of("text"))},
                                 .tensors = {tensor_of("w", {3, 2}, 0, 0)},
                                 .data_bytes = 24}
                               .bytes();
  parse(file);
  for (size_t bytes = 0; bytes < file.size(); ++bytes) EXPECT_THROW(parse(file.substr(0, bytes)), Error) << bytes;
}

TEST(GgufMetadata, ReadsEveryType) {
  const GgufFile file = GgufFile::open(golden_path());
  const GgufMetadata& m = file.metadata();
  EXPECT_EQ(m.text("general.architecture"), "golden");
  EXPECT_EQ(m.integer("all.u8"), 200);
  EXPECT_EQ(m.integer("all.i8"), -100);
  EXPECT_EQ(m.integer("all.u16"), 60000);
  EXPECT_EQ(m.integer("all.i16"), -30000);
  EXPECT_EQ(m.integer("all.u32"), 4000000000);
  EXPECT_EQ(m.integer("all.i32"), -2000000000);
  EXPECT_EQ(m.integer("all.i64"), -(int64_t{1} << 62));
  EXPECT_EQ(m.number("all.u64"), 0x1p63);  // 2^63 + 1, rounded
  EXPECT_EQ(m.number("all.f32"), 0.5);
  GgufMetadata shortest;
  shortest.add("eps", {.type = GgufValueType::kF32, .bytes = {"\xac\xc5\x27\x37", 4}});
  EXPECT_EQ(shortest.number("eps"), 1e-5);
  EXPECT_EQ(m.number("all.f64"), 1e300);
  EXPECT_EQ(m.boolean("all.bool"), true);
  EXPECT_EQ(m.text("all.string"), std::string_view("Größe, 大小, \0\n", 19));
  EXPECT_EQ(m.integers("all.integers"), (std::vector<int64_t>{1, -2, 3}));
  EXPECT_EQ(m.integers("all.bools"), (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(m.numbers("all.floats"), (std::vector<double>{0.25, -1.5}));
  EXPECT_EQ(m.texts("all.strings"), (std::vector<std::string_view>{"", "a", "Ġb", "c\n"}));
  EXPECT_EQ(m.integer("absent"), std::nullopt);
  EXPECT_EQ(m.texts("absent"), std::nullopt);
}

TEST(GgufMetadata, NamesWhatIsOfAnotherType) {
  const GgufFile file = GgufFile::open(golden_path());
  const GgufMetadata& m = file.metadata();
  expect_error(Code::kBadData, "'all.u64' is u64; expected an integer", [&] { m.integer("all.u64"); });
  expect_error(Code::kBadData, "'all.string' is string; expected a number", [&] { m.number("all.string"); });
  expect_error(Code::kBadData, "'all.u8' is u8; expected a bool", [&] { m.boolean("all.u8"); });
  expect_error(Code::kBadData, "expected a string", [&] { m.text("all.strings"); });
  expect_error(Code::kBadData, "array of 4 string; expected an array of int", [&] { m.integers("all.strings"); });
  expect_error(Code::kBadData, "expected an array of numbers", [&] { m.numbers("all.f32"); });
  expect_error(Code::kBadData, "expected an array of strings", [&] { m.texts("all.integers"); });
  expect_error(Code::kBadData, "'absent' is missing", [&] { m.need_integer("absent"); });
  expect_error(Code::kBadData, "'absent' is missing", [&] { m.need_number("absent"); });
  expect_error(Code::kBadData, "'absent' is missing", [&] { m.need_text("absent"); });
}

/// Part `index` of `count`, with one tensor "t<index>" of this number.
void put_part(const std::string& path, uint32_t index, uint32_t count, uint32_t tensors) {
  GgufMetadataBuilder metadata;
  if (index == 0) metadata.put("general.architecture", "parted");
  metadata.put("split.no", index);
  metadata.put("split.count", count);
  metadata.put("split.tensors.count", tensors);
  const std::string name = fmt::format("t{}", index);
  GgufWriter writer(path, metadata, {{name, GgmlType::kF32, {1}}});
  const float number = float(index);
  writer.write(name, &number, 1);
  writer.finish(false);
}

TEST(GgufFile, OpensASplitModelByAnyPart) {
  TestFolder folder;
  const auto part = [&](int i) { return folder / fmt::format("m-0000{}-of-00003.gguf", i + 1); };
  for (uint32_t i = 0; i < 3; ++i) put_part(part(int(i)), i, 3, 3);
  for (int opened = 0; opened < 3; ++opened) {
    const GgufFile file = GgufFile::open(part(opened));
    EXPECT_EQ(file.parts(), 3u);
    EXPECT_EQ(file.path(), part(0));
    EXPECT_EQ(file.metadata().text("general.architecture"), "parted");
    ASSERT_EQ(file.tensors().size(), 3u);
    for (int i = 0; i < 3; ++i) {
      const GgufTensor* tensor = file.find(fmt::format("t{}", i));
      ASSERT_NE(tensor, nullptr);
      float number = -1;
      std::memcpy(&number, file.data(*tensor).data(), sizeof number);
      EXPECT_EQ(number, float(i));
    }
    EXPECT_EQ(file.find("t3"), nullptr);
  }
}

TEST(GgufFile, NamesWhatIsWrongWithTheParts) {
  TestFolder folder;
  const std::string first = folder / "m-00001-of-00002.gguf", second = folder / "m-00002-of-00002.gguf";
  put_part(first, 0, 2, 2);
  expect_error(Code::kNotFound, "part 2 of 2 is missing; expected it at " + second, [&] { GgufFile::open(first); });
  put_part(second, 0, 2, 2);
  expect_error(Code::kMismatch, "its name says 2 of 2", [&] { GgufFile::open(first); });
  put_part(second, 1, 2, 2);
  put_part(first, 0, 2, 5);
  expect_error(Code::kMismatch, "hold 2 tensors; metadata 'split.tensors.count' is 5", [&] { GgufFile::open(first); });
  put_part(folder / "other.gguf", 0, 2, 2);
  expect_error(Code::kMismatch, "such parts are named", [&] { GgufFile::open(folder / "other.gguf"); });
  put_part(folder / "other.gguf", 3, 2, 2);
  expect_error(Code::kBadData, "'split.no' is 3", [&] { GgufFile::open(folder / "other.gguf"); });
}

TEST(GgufFile, NamesParts) {
  EXPECT_EQ(gguf_part_path("a/x-00001-of-00003.gguf", 1, 3), "a/x-00002-of-00003.gguf");
  EXPECT_EQ(gguf_part_path("x.gguf", 0, 2), std::nullopt);
  EXPECT_EQ(gguf_part_path("x-0000a-of-00003.gguf", 0, 2), std::nullopt);
}

TEST(GgufFile, KnowsTheFormatByItsFirstBytes) {
  TestFolder folder;
  put_file(folder / "a", "GGUF");
  put_file(folder / "b", "GGU");
  EXPECT_TRUE(is_gguf(folder / "a"));
  EXPECT_FALSE(is_gguf(folder / "b"));
  EXPECT_FALSE(is_gguf(folder / "absent"));
  EXPECT_FALSE(is_gguf(folder.path()));
}

}  // namespace
}  // namespace espalier
