#include "formats/gguf_writer.h"

#include <cstring>
#include <filesystem>

#include "formats/gguf.h"
#include "formats/gguf_blocks.h"
#include "formats/test_folder.h"

namespace espalier {
namespace {

std::vector<float> ramp(size_t count) {
  std::vector<float> numbers(count);
  for (size_t i = 0; i < count; ++i) numbers[i] = float(int(i % 61) - 30) * 0.25f;  // exact in bf16
  return numbers;
}

TEST(GgufWriter, WritesWhatTheReaderReads) {
  TestFolder folder;
  GgufMetadataBuilder metadata;
  metadata.put("general.architecture", "test");
  metadata.put("a.bool", true);
  metadata.put("a.u32", 7u);
  metadata.put("a.f32", 0.5f);
  metadata.put("a.texts", std::vector<std::string>{"x", "", "yz"});
  metadata.put("a.ints", std::vector<int32_t>{-1, 2});
  metadata.put("a.floats", std::vector<float>{0.25f});
  const std::vector<PlannedGgufTensor> plan = {{"f32", GgmlType::kF32, {3, 5}},  {"empty", GgmlType::kF16, {0, 4}},
                                               {"f16", GgmlType::kF16, {7}},     {"bf16", GgmlType::kBF16, {2, 3, 1}},
                                               {"q8", GgmlType::kQ8_0, {33, 64}}, {"last", GgmlType::kF32, {0}}};
  const std::string path = folder / "x.gguf";
  GgufWriter writer(path, metadata, plan);
  for (const PlannedGgufTensor& tensor : plan) {
    const std::vector<float> numbers = ramp(size_t(tensor.shape.size()));
    if (tensor.name != "q8") {
      writer.write(tensor.name, numbers.data(), int64_t(numbers.size()));
      continue;
    }
    writer.write("q8", numbers.data(), 64);  // in pieces
    writer.write("q8", numbers.data() + 64, 32 * 64);
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  writer.finish(false);
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));

  const GgufFile file = GgufFile::open(path);
  EXPECT_EQ(file.version(), 3u);
  EXPECT_EQ(file.metadata().keys().size(), 7u);
  EXPECT_EQ(file.metadata().boolean("a.bool"), true);
  EXPECT_EQ(file.metadata().integer("a.u32"), 7);
  EXPECT_EQ(file.metadata().number("a.f32"), 0.5);
  EXPECT_EQ(file.metadata().texts("a.texts"), (std::vector<std::string_view>{"x", "", "yz"}));
  EXPECT_EQ(file.metadata().integers("a.ints"), (std::vector<int64_t>{-1, 2}));
  EXPECT_EQ(file.metadata().numbers("a.floats"), (std::vector<double>{0.25}));
  ASSERT_EQ(file.tensors().size(), plan.size());
  for (size_t i = 0; i < plan.size(); ++i) {
    const GgufTensor& tensor = file.tensors()[i];
    EXPECT_EQ(tensor.name, plan[i].name);
    EXPECT_EQ(tensor.type, plan[i].type);
    EXPECT_TRUE(tensor.shape == plan[i].shape) << tensor.name;
    const std::vector<float> numbers = ramp(size_t(tensor.shape.size()));
    std::vector<float> back(numbers.size());
    dequantise(tensor.type, file.data(tensor).data(), tensor.shape.size(), back.data(), "test");
    // Q8_0 is within half a step of max / 127, the others hold these numbers exactly.
    const float most = tensor.type == GgmlType::kQ8_0 ? 7.5f / 127 : 0;
    for (size_t j = 0; j < numbers.size(); ++j) EXPECT_NEAR(back[j], numbers[j], most) << tensor.name << j;
  }
}

TEST(GgufWriter, CopiesMetadataOfAnotherFile) {
  TestFolder folder;
  const GgufFile golden = GgufFile::open(std::string(ESP_SOURCE_DIR) + "/tests/golden/gguf/blocks.gguf");
  GgufMetadataBuilder metadata;
  for (const std::string_view key : golden.metadata().keys()) metadata.put(key, *golden.metadata().find(key));
  GgufWriter(folder / "copy.gguf", metadata, {}).finish(false);
  const GgufFile copy = GgufFile::open(folder / "copy.gguf");
  ASSERT_EQ(copy.metadata().keys(), golden.metadata().keys());
  for (const std::string_view key : golden.metadata().keys()) {
    const GgufValue &a = *golden.metadata().find(key), &b = *copy.metadata().find(key);
    EXPECT_EQ(a.type, b.type) << key;
    EXPECT_EQ(a.count, b.count) << key;
    EXPECT_EQ(a.bytes, b.bytes) << key;
  }
}

TEST(GgufWriter, LeavesNothingBehindWhenGivenUp) {
  TestFolder folder;
  {
    GgufWriter writer(folder / "x.gguf", {}, {{"w", GgmlType::kF32, {4}}});
    EXPECT_TRUE(std::filesystem::exists(folder / "x.gguf.tmp"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  expect_error(Code::kNotFound, "absent", [&] { GgufWriter(folder / "absent/x.gguf", {}, {}); });
}

}  // namespace
}  // namespace espalier
