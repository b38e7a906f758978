#include "formats/gguf_quantise.h"

#include <cmath>

#include "formats/gguf.h"
#include "formats/gguf_blocks.h"
#include "formats/test_folder.h"

namespace espalier {
namespace {

constexpr GgmlType kAll[] = {GgmlType::kF32,  GgmlType::kF16,    GgmlType::kBF16, GgmlType::kQ8_0, GgmlType::kQ4_0,
                             GgmlType::kQ4_1, GgmlType::kQ5_0,   GgmlType::kQ5_1, GgmlType::kQ2_K, GgmlType::kQ3_K,
                             GgmlType::kQ4_K, GgmlType::kIQ4_NL, GgmlType::kQ5_K, GgmlType::kQ6_K};

std::vector<std::byte> blocks_of(GgmlType type, const std::vector<float>& numbers) {
  const GgmlTypeInfo& info = ggml_type_info(type);
  std::vector<std::byte> blocks(numbers.size() / size_t(info.elements) * size_t(info.bytes));
  quantise(type, numbers.data(), int64_t(numbers.size()), blocks.data());
  return blocks;
}

std::vector<float> there_and_back(GgmlType type, const std::vector<float>& numbers) {
  const std::vector<std::byte> blocks = blocks_of(type, numbers);
  std::vector<float> back(numbers.size());
  dequantise(type, blocks.data(), int64_t(numbers.size()), back.data(), "test");
  return back;
}

// tools/measure_gguf_quantisers.py makes the same numbers: sums of twelve 16-bit integers, and for heavy tails times
// 2^k with probability 2^(-k-1).
uint64_t mixed(uint64_t index) {
  uint64_t z = index * 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

std::vector<float> test_numbers(bool heavy, size_t count = 64 * 1024) {
  std::vector<float> numbers(count);
  for (size_t i = 0; i < count; ++i) {
    int64_t total = -6 * 65536;
    for (uint64_t word = 0; word < 3; ++word)
      for (int part = 0; part < 4; ++part) total += int64_t(mixed(4 * (i + 1) + word) >> 16 * part & 0xFFFF);
    const int k = heavy ? std::min(4, std::countr_one(mixed(4 * (i + 1) + 3))) : 0;
    numbers[i] = float(total) / 65536 * float(1 << k);
  }
  return numbers;
}

double relative_error(GgmlType type, const std::vector<float>& numbers) {
  const std::vector<float> back = there_and_back(type, numbers);
  double error = 0, square = 0;
  for (size_t i = 0; i < numbers.size(); ++i) {
    error += std::pow(double(back[i]) - double(numbers[i]), 2);
    square += std::pow(double(numbers[i]), 2);
  }
  return std::sqrt(error / square);
}

// blocks.gguf is made by tools/make_gguf_golden.py with ggml's own Python code.
TEST(GgufQuantise, EqualsGgmlsBytes) {
  const GgufFile golden = GgufFile::open(std::string(ESP_SOURCE_DIR) + "/tests/golden/gguf/blocks.gguf");
  const GgufTensor& source = *golden.find("numbers");
  std::vector<float> numbers(size_t(source.shape.size()));
  dequantise(source.type, golden.data(source).data(), source.shape.size(), numbers.data(), "numbers");
  for (const GgmlType type : {GgmlType::kF16, GgmlType::kBF16, GgmlType::kQ8_0, GgmlType::kQ4_0, GgmlType::kQ4_1,
                              GgmlType::kQ5_0, GgmlType::kQ5_1}) {
    const std::string name = fmt::format("numbers.{}", ggml_type_name(type));
    const GgufTensor* tensor = golden.find(name);
    ASSERT_NE(tensor, nullptr) << name;
    const std::span<const std::byte> theirs = golden.data(*tensor);
    const std::vector<std::byte> ours = blocks_of(type, numbers);
    ASSERT_EQ(ours.size(), theirs.size()) << name;
    for (size_t i = 0; i < ours.size(); ++i) ASSERT_EQ(ours[i], theirs[i]) << name << " byte " << i;
  }
}

// What ggml 0.25.3 makes of the same numbers, measured by tools/measure_gguf_quantisers.py. Types that are rounded as
// ggml rounds have the same error to the digits written; those that are searched have a smaller one, by 1 % (Q4_K) to
// 11 % (Q2_K).
TEST(GgufQuantise, IsNoWorseThanGgml) {
  struct Row {
    GgmlType type;
    double normal, heavy, most;
  };
  constexpr double kSame = 1.0001, kSearched = 1.0;
  const std::vector<float> normal = test_numbers(false), heavy = test_numbers(true);
  constexpr Row kRows[] = {
      {GgmlType::kQ8_0, 0.005264, 0.009339, kSame},      {GgmlType::kQ4_0, 0.084594, 0.139825, kSame},
      {GgmlType::kQ4_1, 0.077489, 0.112012, kSame},      {GgmlType::kQ5_0, 0.042109, 0.073647, kSame},
      {GgmlType::kQ5_1, 0.037537, 0.054230, kSame},      {GgmlType::kIQ4_NL, 0.075572, 0.110326, kSearched},
      {GgmlType::kQ2_K, 0.294188, 0.378611, kSearched},  {GgmlType::kQ3_K, 0.149972, 0.189941, kSearched},
      {GgmlType::kQ4_K, 0.070574, 0.103970, kSearched},  {GgmlType::kQ5_K, 0.035691, 0.052790, kSearched},
      {GgmlType::kQ6_K, 0.017555, 0.028785, kSearched},
  };
  for (const Row& row : kRows) {
    const double ours = relative_error(row.type, normal), ours_heavy = relative_error(row.type, heavy);
    EXPECT_LT(ours, row.normal * row.most) << ggml_type_name(row.type);
    EXPECT_LT(ours_heavy, row.heavy * row.most) << ggml_type_name(row.type);
    EXPECT_GT(ours, row.normal * 0.8) << ggml_type_name(row.type) << ": too good to be true";
  }
}

// |x - d q| <= d_exact / 2 for d_exact = max / 127, plus what rounding d to f16 (2^-11 of it) adds for q up to 127.
TEST(GgufQuantise, Q8IsWithinHalfAStep) {
  std::vector<float> numbers(320);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::sin(float(i * i)) * float(1 + i / 32);
  const std::vector<float> back = there_and_back(GgmlType::kQ8_0, numbers);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const float step = float(1 + i / 32) / 127;
    EXPECT_NEAR(back[i], numbers[i], step * (0.5f + 127 * 0x1p-11f)) << i;
  }
}

// A block of equal numbers is a level times a scale, or a minimum. Scales are f16 (2^-11 each way), those of sub-blocks
// integers of the block's, in which the largest is exact: all sub-blocks have the same here.
TEST(GgufQuantise, EqualNumbersStayEqual) {
  for (const GgmlType type : kAll)
    for (const float x : {1.0f, -1.0f, 0.7f, -0.7f, 3.0f, -300.0f}) {
      const std::vector<float> back = there_and_back(type, std::vector<float>(256, x));
      for (const float y : back) ASSERT_NEAR(y, x, std::abs(x) * 0x1p-8f) << ggml_type_name(type);
    }
}

TEST(GgufQuantise, ExtremesStayFinite) {
  for (const GgmlType type : kAll) {
    std::vector<float> numbers(512);
    for (const float y : there_and_back(type, numbers)) ASSERT_EQ(y, 0) << ggml_type_name(type);
    for (const float size : {1e-45f, 1e-39f, 1e-30f, 1e-8f, 1e-3f, 1.0f, 65504.0f}) {
      for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = size * float(int(mixed(i) % 3) - 1);
      numbers[100] = 0;
      const std::vector<float> back = there_and_back(type, numbers);
      for (const float y : back) ASSERT_LE(std::abs(y), 1.3f * size + 1e-7f) << ggml_type_name(type) << " " << size;
    }
  }
  EXPECT_EQ(largest_quantisable(GgmlType::kQ4_K), 65504.0f);
  EXPECT_GT(largest_quantisable(GgmlType::kBF16), 1e38f);
}

// One number far out: the others of its block lose their levels, those of other blocks do not know of it.
TEST(GgufQuantise, BlocksDoNotKnowEachOther) {
  ThreadPool pool(3);
  Context ctx{pool, silent_log()};
  for (const GgmlType type : kAll) {
    std::vector<float> numbers = test_numbers(true, 256 * 100);
    const std::vector<std::byte> before = blocks_of(type, numbers);
    std::vector<std::byte> parallel(before.size());
    quantise(ctx, type, numbers.data(), int64_t(numbers.size()), parallel.data());
    EXPECT_EQ(parallel, before) << ggml_type_name(type);
    numbers[256 * 50] = 1000;
    const std::vector<std::byte> after = blocks_of(type, numbers);
    const size_t fiftieth = before.size() / 2, next = before.size() / 100 * 51;
    EXPECT_TRUE(std::equal(before.begin(), before.begin() + int64_t(fiftieth), after.begin())) << ggml_type_name(type);
    EXPECT_TRUE(std::equal(before.begin() + int64_t(next), before.end(), after.begin() + int64_t(next)));
    EXPECT_NE(before, after) << ggml_type_name(type);
  }
}

// IQ4_NL works on four blocks at a time.
TEST(GgufQuantise, AnyNumberOfBlocks) {
  const std::vector<float> numbers = test_numbers(false, 32 * 7);
  const std::vector<std::byte> all = blocks_of(GgmlType::kIQ4_NL, numbers);
  for (size_t blocks = 1; blocks <= 7; ++blocks) {
    const std::vector<float> begin(numbers.begin(), numbers.begin() + 32 * int(blocks));
    const std::vector<std::byte> some = blocks_of(GgmlType::kIQ4_NL, begin);
    EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin())) << blocks;
  }
}

TEST(GgufQuantise, SaysWhatItCannot) {
  EXPECT_FALSE(can_quantise(GgmlType::kIQ4_XS));
  EXPECT_FALSE(can_quantise(GgmlType(16)));
  for (const GgmlType type : kAll) EXPECT_TRUE(can_quantise(type));
}

}  // namespace
}  // namespace espalier
