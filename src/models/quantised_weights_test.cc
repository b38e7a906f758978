// Weights that run from their own blocks: panels hold what the blocks say, and a model gives the logits of the same
// model dequantised but for the rounding of activations.
#include "models/quantised_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "formats/gguf.h"
#include "formats/gguf_blocks.h"
#include "formats/test_folder.h"
#include "kernels/kernels.h"
#include "models/golden_model.h"
#include "models/init.h"
#include "models/panel_packing.h"
#include "models/save.h"
#include "models/save_gguf.h"

namespace espalier {
namespace {

constexpr GgmlType kTypes[] = {GgmlType::kQ8_0,   GgmlType::kQ4_0, GgmlType::kQ4_1, GgmlType::kQ5_0,
                               GgmlType::kQ5_1,   GgmlType::kIQ4_NL, GgmlType::kQ2_K, GgmlType::kQ3_K,
                               GgmlType::kQ4_K,   GgmlType::kQ5_K, GgmlType::kQ6_K, GgmlType::kIQ4_XS};

/// Rows of random blocks whose f16 fields are small: where they lie follows from the type's size.
std::vector<std::byte> random_blocks(GgmlType type, int64_t rows, int64_t cols) {
  const GgmlTypeInfo& info = ggml_type_info(type);
  const Rng rng(11, Purpose::kTest, uint64_t(type));
  std::vector<std::byte> bytes(size_t(rows * cols / info.elements * info.bytes));
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte(rng.u64(i) & 255);
  const auto halves = [&]() -> std::vector<int> {
    switch (type) {
      case GgmlType::kQ4_1: case GgmlType::kQ5_1: case GgmlType::kQ4_K: case GgmlType::kQ5_K: return {0, 2};
      case GgmlType::kQ2_K: return {80, 82};
      case GgmlType::kQ3_K: return {108};
      case GgmlType::kQ6_K: return {208};
      default: return {0};
    }
  }();
  for (size_t block = 0; block * size_t(info.bytes) < bytes.size(); ++block)
    for (const int at : halves) {
      const f16 x((rng.uniform(block * 8 + size_t(at) + (1u << 20)) - 0.4f) / 32);
      std::memcpy(bytes.data() + block * size_t(info.bytes) + size_t(at), &x.bits, 2);
    }
  return bytes;
}

// A row that is 1 in one column and 0 elsewhere is rounded without loss, so its product is the weight itself: but for
// the rounding of 1 / 127, of products of scales and of the sum with a minimum.
TEST(PanelPacking, PanelsHoldTheNumbersOfTheBlocks) {
  constexpr int64_t kRows = 19;
  ThreadPool pool(1);
  Context ctx{pool, silent_log()};
  for (const GgmlType type : kTypes)
    for (const int64_t cols : ggml_type_info(type).elements == 256 ? std::vector<int64_t>{256, 512}
                                                                   : std::vector<int64_t>{32, 64, 96}) {
      SCOPED_TRACE(fmt::format("{} {}", ggml_type_name(type), cols));
      const std::vector<std::byte> blocks = random_blocks(type, kRows, cols);
      std::vector<float> expected(size_t(kRows * cols)), x(size_t(cols * cols)), y(size_t(kRows * cols));
      dequantise(type, blocks.data(), kRows * cols, expected.data(), "test");
      const PanelKind kind = *panel_kind(type);
      PanelRun run{kind, kRows};
      const std::shared_ptr<void> memory = allocate_aligned(size_t(run.count() * panel_bytes(kind, cols)));
      auto* panels = static_cast<std::byte*>(memory.get());
      run.panels = panels;
      const int64_t row_bytes = int64_t(blocks.size()) / kRows;
      for (int64_t panel = 0; panel < run.count(); ++panel) {
        std::array<const std::byte*, kPanelRows> rows{};
        for (int64_t i = 0; i < std::min<int64_t>(kPanelRows, kRows - panel * kPanelRows); ++i)
          rows[size_t(i)] = blocks.data() + (panel * kPanelRows + i) * row_bytes;
        ASSERT_TRUE(pack_panel(type, rows, cols, panels + panel * panel_bytes(kind, cols)));
      }
      for (int64_t i = 0; i < cols; ++i) x[size_t(i * cols + i)] = 1;
      kernels(ctx).quant_gemm(ctx, {mat(std::as_const(x).data(), cols, cols), {&run, 1},
                                    mat(y.data(), cols, kRows)});
      for (int64_t row = 0; row < kRows; ++row)
        for (int64_t col = 0; col < cols; ++col) {
          const float want = expected[size_t(row * cols + col)];
          ASSERT_NEAR(y[size_t(col * kRows + row)], want, 8 * 0x1p-24 * (std::abs(want) + 64.0f)) << row << " " << col;
        }
    }
}

TEST(PanelPacking, ScalesThatAreNotFiniteAreTold) {
  for (const GgmlType type : kTypes) {
    std::vector<std::byte> blocks = random_blocks(type, 1, 256);
    std::fill(blocks.begin(), blocks.end(), std::byte{0xFF});  // a scale of all ones is NaN
    std::array<const std::byte*, kPanelRows> rows{blocks.data()};
    std::vector<std::byte> panel(size_t(panel_bytes(*panel_kind(type), 256)));
    EXPECT_FALSE(pack_panel(type, rows, 256, panel.data())) << ggml_type_name(type);
  }
}

/// A model of the family, wide enough for blocks of 32 columns, as a .gguf in Q8_0.
struct QuantisedFile {
  explicit QuantisedFile(const std::string& family) {
    ArchSpec spec = load_spec(golden_folder(family));
    spec.width = 64;
    spec.heads = 4;
    spec.kv_heads = spec.family == "gpt2" || spec.family == "gpt_neox" ? 4 : 2;
    spec.head_size = 16;
    spec.ffn = 96;
    spec.window = 0;
    spec.full_attention.clear();
    if (spec.rotary_size > 0) spec.rotary_size = 8;
    Decoder model(spec, one_process_mesh(), DType::kF32, true);
    initialise(ctx, model, 1, 0.2);
    save_model(ctx, model, folder / "m", {.sync = false});
    path = folder / "m.gguf";
    save_gguf(ctx, folder / "m", path, {.dtype = "q8_0", .sync = false});
  }
  std::unique_ptr<Decoder> load(Blocks blocks) {
    return load_model(ctx, one_process_mesh(), path, {.blocks = blocks});
  }
  /// Of a pass over some tokens with a cache.
  std::vector<float> logits_of(Decoder& model) {
    const std::vector<int32_t> ids = {1, 17, 5, 60, 44, 3, 3, 29, 8, 51}, positions = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    const int64_t rows = int64_t(ids.size()), vocab = model.spec().vocab;
    BufferPool buffers;
    Tape tape(ctx, buffers, DType::kF32, TapeMode::kServe);
    KvCache cache(model.spec());
    const CacheSegment segment{&cache, 0, rows};
    const Var hidden = model.hidden(tape, {1, rows, ids.data(), positions.data(), nullptr, {&segment, 1}});
    std::vector<float> logits(size_t(rows * vocab));
    model.logits(tape, hidden, mat(logits.data(), rows, vocab));
    return logits;
  }

  ThreadPool pool{2};
  Context ctx{pool, silent_log(), choose_isa()};
  TestFolder folder;
  std::string path;
};

class QuantisedModel : public testing::TestWithParam<std::string> {};

TEST_P(QuantisedModel, RunsFromItsBlocksAsDequantised) {
  QuantisedFile file(GetParam());
  const std::vector<float> expected = file.logits_of(*file.load(Blocks::kDequantise));
  double squares = 0;
  for (const float x : expected) squares += double(x) * x;
  const auto packed = file.load(Blocks::kPack), mapped = file.load(Blocks::kMap);
  for (const WeightInfo& w : weight_list(packed->spec()))
    EXPECT_EQ(packed->find(w.name)->quantised != nullptr, w.rows > 0 && w.name != "positions.weight") << w.name;
  std::vector<float> first;
  for (const Isa isa : isas_here()) {
    file.ctx.isa = isa;
    const std::vector<float> logits = file.logits_of(*packed);
    EXPECT_EQ(logits, file.logits_of(*mapped)) << isa_name(isa);
    // An activation is off by 1/254 of the largest of its block at most, 1/100 of its size on average: so are sums, and
    // a few of them follow each other.
    double difference = 0;
    for (size_t i = 0; i < logits.size(); ++i) difference += std::pow(double(logits[i]) - expected[i], 2);
    EXPECT_LT(std::sqrt(difference / squares), 0.05) << isa_name(isa);
    EXPECT_GT(difference, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, QuantisedModel,
                         testing::Values("gpt2", "llama2", "qwen2", "qwen3", "gpt_neox", "phi3", "olmo2", "granite"),
                         [](const auto& family) { return family.param; });

// Scores of a text are the same whether it is read as a training batch or behind a cache.
TEST(QuantisedModelFile, ScoresAsItServes) {
  QuantisedFile file("qwen2");
  const auto model = file.load(Blocks::kPack);
  const std::vector<float> logits = file.logits_of(*model);
  const int64_t vocab = model->spec().vocab, rows = int64_t(logits.size()) / vocab;
  const std::vector<int32_t> ids = {1, 17, 5, 60, 44, 3, 3, 29, 8, 51}, positions = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  const std::vector<int32_t> first_key(ids.size(), 0), targets = {17, 5, 60, 44, 3, 3, 29, 8, 51, 2};
  std::vector<float> losses(ids.size());
  BufferPool buffers;
  Tape tape(file.ctx, buffers, DType::kF32, TapeMode::kEval);
  model->loss(tape, {1, rows, ids.data(), positions.data(), first_key.data()}, targets.data(), 1, losses.data());
  for (int64_t i = 0; i < rows; ++i) {
    const float* row = &logits[size_t(i * vocab)];
    double sum = 0;
    for (int64_t v = 0; v < vocab; ++v) sum += std::exp(double(row[v]) - row[targets[size_t(i)]]);
    // The two attentions sum in other orders, which may round an activation to its neighbour among 8-bit numbers.
    EXPECT_NEAR(losses[size_t(i)], std::log(sum), 0.05) << i;
  }
}

TEST(QuantisedModelFile, ADamagedScaleIsNamedWhereItIsPacked) {
  QuantisedFile file("llama2");
  std::string bytes = read_file(file.path);
  const GgufFile gguf = GgufFile::open(file.path);
  const GgufTensor& tensor = *gguf.find("blk.1.ffn_down.weight");
  bytes[size_t(tensor.begin) + 1] = char(0xFF);
  put_file(file.path, bytes);
  try {
    file.load(Blocks::kPack);
    FAIL() << "loaded";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kBadData);
    EXPECT_NE(std::string(e.what()).find("down_proj"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace espalier
