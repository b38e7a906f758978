#include "formats/gguf_blocks.h"

#include <cmath>
#include <cstring>

#include "formats/gguf.h"
#include "formats/test_folder.h"

namespace espalier {
namespace {

// Made by tools/make_gguf_golden.py with ggml's own Python code.
const GgufFile& golden() {
  static const GgufFile file = GgufFile::open(std::string(ESP_SOURCE_DIR) + "/tests/golden/gguf/blocks.gguf");
  return file;
}

std::vector<float> numbers_of(std::string_view name) {
  const GgufTensor* tensor = golden().find(name);
  EXPECT_NE(tensor, nullptr) << name;
  std::vector<float> numbers(size_t(tensor->shape.size()));
  dequantise(tensor->type, golden().data(*tensor).data(), tensor->shape.size(), numbers.data(), std::string(name));
  return numbers;
}

constexpr GgmlType kAll[] = {GgmlType::kF32,  GgmlType::kF16,  GgmlType::kBF16, GgmlType::kQ8_0,   GgmlType::kQ4_0,
                             GgmlType::kQ4_1, GgmlType::kQ5_0, GgmlType::kQ5_1, GgmlType::kIQ4_NL, GgmlType::kQ2_K,
                             GgmlType::kQ3_K, GgmlType::kQ4_K, GgmlType::kQ5_K, GgmlType::kQ6_K,   GgmlType::kIQ4_XS};

// Both sides do the same f32 operations in the same order (d times scale, times q, minus the minimum), so every bit is
// the same. Only the sign of a zero may differ.
TEST(GgufBlocks, EqualsGgmlsNumbers) {
  for (const GgmlType type : kAll) {
    const std::string name = ggml_type_name(type);
    ASSERT_TRUE(can_dequantise(type)) << name;
    const std::vector<float> ours = numbers_of(name), theirs = numbers_of(name + ".numbers");
    ASSERT_EQ(ours.size(), theirs.size()) << name;
    double norm = 0;
    for (size_t i = 0; i < ours.size(); ++i) {
      ASSERT_EQ(ours[i], theirs[i]) << name << " element " << i;
      norm += std::abs(double(ours[i]));
    }
    EXPECT_GT(norm, 0) << name;
  }
}

TEST(GgufBlocks, ReadsAnyRangeOfBlocks) {
  for (const GgmlType type : kAll) {
    const std::string name = ggml_type_name(type);
    const std::vector<float> whole = numbers_of(name);
    const GgmlTypeInfo& info = ggml_type_info(type);
    std::vector<float> last(size_t(info.elements));
    const std::span<const std::byte> blocks = golden().data(*golden().find(name));
    dequantise(type, blocks.data() + blocks.size() - size_t(info.bytes), info.elements, last.data(), name);
    EXPECT_TRUE(std::equal(last.begin(), last.end(), whole.end() - info.elements)) << name;
  }
}

TEST(GgufBlocks, RefusesOtherTypesByName) {
  const auto type = GgmlType(16);
  float out[256];
  const std::byte blocks[66] = {};
  EXPECT_FALSE(can_dequantise(type));
  expect_error(Code::kUnsupported, "IQ2_XXS are not read", [&] { dequantise(type, blocks, 256, out, "w of x.gguf"); });
}

}  // namespace
}  // namespace espalier
