#include "formats/safetensors.h"

#include <cstring>

#include "formats/safetensors_writer.h"
#include "formats/test_folder.h"

namespace espalier {
namespace {

// A file from the text of its header and the number of its data bytes, which count up from 0.
std::string file_of(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string file(reinterpret_cast<const char*>(&length), 8);
  file += header;
  for (size_t i = 0; i < data_bytes; ++i) file += char(i);
  return file;
}

SafetensorsHeader parse(const std::string& file) {
  return parse_safetensors_header(std::as_bytes(std::span(file)), "x.safetensors");
}

void expect_refused(Code code, const std::string& part, const std::string& header, size_t data_bytes) {
  expect_error(code, part, [&] { parse(file_of(header, data_bytes)); });
}

Tensor counting(DType dtype, const Shape& shape) {
  Tensor tensor(dtype, shape);
  for (int64_t i = 0; i < tensor.bytes(); ++i) static_cast<uint8_t*>(tensor.data())[i] = uint8_t(i * 7 + 1);
  return tensor;
}

void expect_same(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.dtype(), b.dtype());
  ASSERT_TRUE(a.shape() == b.shape()) << a.shape().text() << " and " << b.shape().text();
  EXPECT_TRUE(a.bytes() == 0 || std::memcmp(a.data(), b.data(), size_t(a.bytes())) == 0);
}

std::vector<PlannedTensor> plan_of(const std::vector<std::pair<std::string, Tensor>>& tensors) {
  std::vector<PlannedTensor> plan;
  for (const auto& [name, tensor] : tensors) plan.push_back({name, tensor.dtype(), tensor.shape()});
  return plan;
}

const std::vector<std::pair<std::string, Tensor>>& some_tensors() {
  static const std::vector<std::pair<std::string, Tensor>> tensors = {
      {"f64", counting(DType::kF64, {3})},        {"i64", counting(DType::kI64, {2, 1, 2})},
      {"w.f32", counting(DType::kF32, {4, 5})},   {"i32", counting(DType::kI32, {7})},
      {"scalar", counting(DType::kF32, {})},      {"empty", counting(DType::kF32, {0, 9})},
      {"bf16", counting(DType::kBF16, {3, 3})},   {"f16", counting(DType::kF16, {1, 1})},
      {"u16", counting(DType::kU16, {2})},        {"quote\"\n", counting(DType::kU8, {5})},
      {"bool", counting(DType::kBool, {1})}};
  return tensors;
}

TEST(SafetensorsHeader, ReadsEntriesMetadataAndPadding) {
  const SafetensorsHeader header = parse(file_of(
      R"({"b":{"dtype":"F32","shape":[2,1],"data_offsets":[2,10]},"__metadata__":{"format":"pt"},)"
      R"("a":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}}    )", 10));
  EXPECT_EQ(header.names, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(header.metadata.at("format"), "pt");
  EXPECT_EQ(header.tensors.at("b").shape.text(), "[2, 1]");
  EXPECT_EQ(header.tensors.at("b").bytes, 8u);
  EXPECT_EQ(header.tensors.at("b").begin, header.tensors.at("a").begin + 2);
  EXPECT_TRUE(parse(file_of("{}", 0)).names.empty());
}

TEST(SafetensorsHeader, RefusesLyingSizes) {
  for (const char* bytes : {"", "1234567"}) expect_error(Code::kBadData, "at least 8", [&] { parse(bytes); });
  for (uint64_t length : {uint64_t{3}, uint64_t{100'000'001}, uint64_t{1} << 63, ~uint64_t{0}, ~uint64_t{7}}) {
    std::string file = file_of("{}", 0);
    std::memcpy(file.data(), &length, 8);
    expect_error(Code::kBadData, "claims a header", [&] { parse(file); });
  }
  expect_refused(Code::kBadData, "does not begin", " {}", 0);
  expect_refused(Code::kBadData, "not valid JSON", "{\"a\":", 0);
}

TEST(SafetensorsHeader, RefusesLyingEntries) {
  const auto entry = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"t":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  EXPECT_EQ(parse(file_of(entry("U8", "[2,2]", "[0,4]"), 4)).names.size(), 1u);
  expect_refused(Code::kUnsupported, "'F8_E4M3'", entry("F8_E4M3", "[4]", "[0,4]"), 4);
  expect_refused(Code::kUnsupported, "9 dimensions", entry("U8", "[1,1,1,1,1,1,1,1,4]", "[0,4]"), 4);
  expect_refused(Code::kBadData, "\"shape\" holds -4", entry("U8", "[-4]", "[0,4]"), 4);
  expect_refused(Code::kBadData, "\"shape\" holds 4.0", entry("U8", "[4.0]", "[0,4]"), 4);
  expect_refused(Code::kBadData, "\"shape\" is missing", entry("U8", "4", "[0,4]"), 4);
  expect_refused(Code::kBadData, "larger than any memory", entry("F32", "[4294967296,2147483648]", "[0,4]"), 4);
  expect_refused(Code::kBadData, "larger than any memory", entry("F32", "[9223372036854775807]", "[0,4]"), 4);
  expect_refused(Code::kBadData, "but its offsets span 3", entry("U8", "[4]", "[0,3]"), 4);
  expect_refused(Code::kBadData, "truncated", entry("U8", "[4]", "[0,4]"), 3);
  expect_refused(Code::kBadData, "truncated", entry("U8", "[4]", "[9223372036854775803,9223372036854775807]"), 4);
  expect_refused(Code::kBadData, "not [begin, end]", entry("U8", "[4]", "[4,0]"), 4);
  expect_refused(Code::kBadData, "not [begin, end]", entry("U8", "[4]", "[0,4,8]"), 4);
  expect_refused(Code::kBadData, "1 bytes after", entry("U8", "[4]", "[0,4]"), 5);
  expect_refused(Code::kBadData, "not a JSON object", R"({"t":[]})", 0);
  expect_refused(Code::kBadData, "no string", R"({"__metadata__":{"a":1}})", 0);
}

TEST(SafetensorsHeader, RefusesOverlapsHolesAndRepeatedNames) {
  const auto two = [](const std::string& second, const std::string& a, const std::string& b) {
    return R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + a + R"(},")" + second +
           R"(":{"dtype":"U8","shape":[4],"data_offsets":)" + b + "}}";
  };
  EXPECT_EQ(parse(file_of(two("b", "[4,8]", "[0,4]"), 8)).names, (std::vector<std::string>{"b", "a"}));
  expect_refused(Code::kBadData, "an overlap between 'a' and 'b'", two("b", "[0,4]", "[3,7]"), 7);
  expect_refused(Code::kBadData, "an overlap", two("b", "[0,4]", "[0,4]"), 4);
  expect_refused(Code::kBadData, "a hole between 'a' and 'b'", two("b", "[0,4]", "[5,9]"), 9);
  expect_refused(Code::kBadData, "a hole between 'the header'", two("b", "[1,5]", "[5,9]"), 9);
  expect_refused(Code::kBadData, "\"a\" appears twice", two("a", "[0,4]", "[4,8]"), 8);
}

TEST(Safetensors, WritesAndReadsEveryDtype) {
  const TestFolder folder;
  const std::string path = folder / "all.safetensors";
  SafetensorsWriter writer(path, plan_of(some_tensors()), {.metadata = {{"format", "pt"}, {"k", "v"}}, .sync = true});
  for (const auto& [name, tensor] : some_tensors()) {
    EXPECT_FALSE(std::filesystem::exists(path));
    if (tensor.size() > 0) writer.write(name, tensor);
  }
  writer.finish();
  const SafetensorsFile file = SafetensorsFile::open(path);
  EXPECT_EQ(file.metadata().at("k"), "v");
  for (const auto& [name, tensor] : some_tensors()) expect_same(file.tensor(name), tensor);
  EXPECT_EQ(file.find("f64")->begin % 64, 0u);
  EXPECT_EQ(file.find("nothing"), nullptr);
  expect_error(Code::kNotFound, "did you mean 'scalar'", [&] { file.tensor("scaler"); });
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
}

TEST(Safetensors, TensorsShareTheMappingAndOutliveTheFile) {
  const TestFolder folder;
  const Tensor w = counting(DType::kF32, {100});
  SafetensorsWriter writer(folder / "w.safetensors", {{"w", w.dtype(), w.shape()}});
  writer.write("w", w.data(), 4);  // in pieces
  writer.write("w", static_cast<const char*>(w.data()) + 4, 396);
  writer.finish();
  Tensor kept;
  {
    const SafetensorsFile file = SafetensorsFile::open(folder / "w.safetensors");
    kept = file.tensor("w");
    EXPECT_EQ(kept.data(), std::as_const(kept).data());
    EXPECT_EQ(file.tensor("w").data(), kept.data());
  }
  expect_same(kept, w);
}

TEST(Safetensors, MisalignedTensorsAreCopied) {
  const TestFolder folder;
  const std::string path = folder / "odd.safetensors";
  put_file(path, file_of(R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                  R"("w":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})", 5));
  const Tensor w = SafetensorsFile::open(path).tensor("w");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(w.data()) % alignof(float), 0u);
  const uint8_t expected[] = {1, 2, 3, 4};
  EXPECT_EQ(std::memcmp(w.data(), expected, 4), 0);
}

TEST(Safetensors, AnUnfinishedFileLeavesNothing) {
  const TestFolder folder;
  { SafetensorsWriter writer(folder / "w.safetensors", {{"w", DType::kF32, {4}}}); }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  SafetensorsWriter writer(folder / "w.safetensors", {{"w", DType::kF32, {4}}, {"v", DType::kF32, {4}}});
  EXPECT_DEATH(writer.write("v", counting(DType::kF32, {4})), "planned next is 'w'");
  EXPECT_DEATH(writer.write("w", counting(DType::kBF16, {8})), "planned f32");
  EXPECT_DEATH(writer.finish(), "before tensor 'w'");
}

void write_folder(const std::string& path, uint64_t max_shard_bytes) {
  SafetensorsFolderWriter writer(path, plan_of(some_tensors()), {.max_shard_bytes = max_shard_bytes, .file = {}});
  for (const auto& [name, tensor] : some_tensors()) writer.write(name, tensor);
  writer.finish();
}

TEST(SafetensorsFolder, OneFileOrShardsReadTheSame) {
  const TestFolder folder;
  size_t files_before = 0;
  for (uint64_t max_bytes : {uint64_t{1}, uint64_t{60}, uint64_t{1} << 30, uint64_t{100}}) {
    write_folder(folder.path(), max_bytes);
    const SafetensorsFolder weights = SafetensorsFolder::open(folder.path());
    EXPECT_EQ(weights.names().size(), some_tensors().size());
    for (const auto& [name, tensor] : some_tensors()) expect_same(weights.tensor(name), tensor);
    EXPECT_NE(weights.files().size(), files_before);
    files_before = weights.files().size();
  }
  EXPECT_TRUE(std::filesystem::exists(folder / "model-00001-of-00003.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(folder / "model.safetensors"));
}

TEST(SafetensorsFolder, ALyingIndexIsOneClearError) {
  const TestFolder folder;
  const auto open = [&] { SafetensorsFolder::open(folder.path()); };
  expect_error(Code::kNotFound, "neither model.safetensors nor", open);
  write_folder(folder.path(), 60);
  const std::string index_path = folder / "model.safetensors.index.json";
  const std::string index = read_file(index_path);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = index;
    text.replace(text.find(from), from.size(), to);
    put_file(index_path, text);
  };
  with("\"w.f32\": \"model-00002", "\"w.f32\": \"model-00001");
  expect_error(Code::kBadData, "'w.f32' is not in", open);
  with("\"w.f32\": \"model-00002", "\"w.f32\": \"model-00009");
  expect_error(Code::kNotFound, "model-00009-of-00004.safetensors is missing", open);
  with("\"w.f32\": \"model", "\"w.f32\": \"../model");
  expect_error(Code::kBadData, "plain file name", open);
  with("weight_map", "weight_mop");
  expect_error(Code::kBadData, "\"weight_map\" is missing", open);
  put_file(index_path, index);
  std::filesystem::remove(folder / "model-00003-of-00004.safetensors");
  expect_error(Code::kNotFound, "model-00003-of-00004.safetensors is missing", open);
}

}  // namespace
}  // namespace espalier
