// Which types save_gguf() gives to tensors, and from which it takes them (models/gguf_recipe.h).
#include <filesystem>
#include <limits>

#include <gtest/gtest.h>

#include "formats/gguf.h"
#include "formats/test_folder.h"
#include "models/gguf_recipe.h"
#include "models/golden_model.h"
#include "models/init.h"
#include "models/save.h"
#include "models/save_gguf.h"

namespace espalier {
namespace {

/// A llama of random weights, and what becomes of it.
struct Rig {
  ThreadPool pool{2};
  Context ctx{pool, silent_log(), choose_isa()};
  TestFolder folder;
  Decoder model;

  explicit Rig(int64_t width = 256, int64_t ffn = 512, int64_t layers = 2)
      : model(spec_of(width, ffn, layers), one_process_mesh(), DType::kF32, true) {
    initialise(ctx, model, 5);
    save_model(ctx, model, folder / "m", {.sync = false});
  }
  static ArchSpec spec_of(int64_t width, int64_t ffn, int64_t layers) {
    ArchSpec spec = load_spec(golden_folder("llama3"));
    spec.width = width;
    spec.heads = 4;
    spec.kv_heads = 2;
    spec.head_size = width / 4;
    spec.ffn = ffn;
    spec.layers = layers;
    spec.tied_head = false;
    return spec;
  }
  std::string path(const std::string& name) const { return folder / name + ".gguf"; }
  std::vector<GgufFallback> save(const std::string& dtype, SaveGgufOptions options = {}, const std::string& from = "") {
    options.dtype = dtype;
    options.sync = false;
    return save_gguf(ctx, from.empty() ? folder / "m" : from, path(dtype), options);
  }
  GgmlType type(const std::string& dtype, const std::string& tensor) const {
    const GgufFile file = GgufFile::open(path(dtype));
    const GgufTensor* found = file.find(tensor);
    EXPECT_NE(found, nullptr) << tensor;
    return found ? found->type : GgmlType(24);
  }
};

// Weights are drawn from a normal distribution, for which formats/gguf_quantise_test.cc bounds the error of each type;
// these matrices are a tenth of the numbers there, so that a tenth more is allowed.
TEST(SaveGgufTypes, EveryRecipeIsWrittenAndRead) {
  Rig rig;
  struct Row {
    const char* dtype;
    double most;
  };
  for (const Row row : {Row{"q6_k", 0.0176}, Row{"q5_k", 0.0357}, Row{"q5_k_m", 0.0357}, Row{"q4_k", 0.0706},
                        Row{"q4_k_m", 0.0706}, Row{"iq4_nl", 0.0756}, Row{"q3_k", 0.150}, Row{"q3_k_m", 0.150},
                        Row{"q2_k", 0.295}, Row{"q8_0", 0.0053}, Row{"q5_1", 0.0376}, Row{"q5_0", 0.0422},
                        Row{"q4_1", 0.0775}, Row{"q4_0", 0.0846}, Row{"bf16", 0x1p-8}, Row{"f16", 0x1p-11},
                        Row{"f32", 1e-9}}) {
    EXPECT_TRUE(rig.save(row.dtype).empty()) << row.dtype;
    const GgufRecipe& recipe = *find_gguf_recipe(row.dtype);
    EXPECT_EQ(GgufFile::open(rig.path(row.dtype)).metadata().integer("general.file_type"), int64_t(recipe.file_type));
    EXPECT_EQ(rig.type(row.dtype, "blk.0.attn_q.weight"), recipe.type) << row.dtype;
    EXPECT_EQ(rig.type(row.dtype, "blk.0.attn_norm.weight"), GgmlType::kF32) << row.dtype;
    const auto loaded = load_model(rig.ctx, one_process_mesh(), rig.path(row.dtype), {});
    for (size_t i = 0; i < loaded->params().size(); ++i) {
      const Tensor &x = rig.model.params()[i].master, &y = loaded->params()[i].master;
      const double most = x.shape().rank() == 1 ? 0 : 1.1 * row.most;
      EXPECT_LE(relative_error(y.as<float>(), x.as<float>(), x.size()), most)
          << row.dtype << " " << rig.model.params()[i].name;
    }
  }
  EXPECT_EQ(gguf_recipes().size(), 17u);  // all of them are above
  expect_error(Code::kUsage, "no dtype 'q9'; there are f32, f16", [&] { rig.save("q9"); });
}

TEST(SaveGgufTypes, RowsThatAreNoWholeBlocksFallBack) {
  Rig rig(64, 72);
  const std::vector<GgufFallback> fallbacks = rig.save("q4_k");
  ASSERT_EQ(fallbacks.size(), 2u);
  EXPECT_EQ(fallbacks[0].wanted, GgmlType::kQ4_K);
  EXPECT_EQ(fallbacks[0].given, GgmlType::kQ5_0);
  EXPECT_EQ(fallbacks[1].given, GgmlType::kF16);
  EXPECT_EQ(fallbacks[1].names, (std::vector<std::string>{"blk.0.ffn_down.weight", "blk.1.ffn_down.weight"}));
  EXPECT_EQ(rig.type("q4_k", "blk.0.ffn_up.weight"), GgmlType::kQ5_0);
  EXPECT_EQ(rig.type("q4_k", "blk.0.ffn_down.weight"), GgmlType::kF16);
  load_model(rig.ctx, one_process_mesh(), rig.path("q4_k"), {});
  for (const auto& [wanted, given] :
       {std::pair{GgmlType::kQ2_K, GgmlType::kIQ4_NL}, {GgmlType::kQ3_K, GgmlType::kIQ4_NL},
        {GgmlType::kQ4_K, GgmlType::kQ5_0}, {GgmlType::kQ5_K, GgmlType::kQ5_1}, {GgmlType::kQ6_K, GgmlType::kQ8_0}}) {
    EXPECT_EQ(fitting_type(wanted, 512), wanted);
    EXPECT_EQ(fitting_type(wanted, 96), given);
    EXPECT_EQ(fitting_type(wanted, 40), GgmlType::kF16);
    EXPECT_GE(bits_of(given), bits_of(wanted));
  }
}

TEST(SaveGgufTypes, TheHeadMayHaveItsOwn) {
  Rig rig;
  rig.save("q8_0", {.head = GgmlType::kQ4_0});
  EXPECT_EQ(rig.type("q8_0", "token_embd.weight"), GgmlType::kQ4_0);
  EXPECT_EQ(rig.type("q8_0", "output.weight"), GgmlType::kQ4_0);
  EXPECT_EQ(rig.type("q8_0", "blk.0.ffn_up.weight"), GgmlType::kQ8_0);
}

TEST(SaveGgufTypes, MixesGiveMoreBitsWhereItHurts) {
  Rig rig(256, 256, 16);
  rig.save("q4_k_m");
  EXPECT_EQ(rig.type("q4_k_m", "output.weight"), GgmlType::kQ6_K);
  EXPECT_EQ(rig.type("q4_k_m", "token_embd.weight"), GgmlType::kQ4_K);  // it is not the head
  int sensitive = 0;
  for (int layer = 0; layer < 16; ++layer) {
    const std::string prefix = fmt::format("blk.{}.", layer);
    const GgmlType type = rig.type("q4_k_m", prefix + "ffn_down.weight");
    EXPECT_EQ(rig.type("q4_k_m", prefix + "attn_v.weight"), type);
    EXPECT_EQ(rig.type("q4_k_m", prefix + "attn_q.weight"), GgmlType::kQ4_K);
    EXPECT_EQ(rig.type("q4_k_m", prefix + "attn_output.weight"), GgmlType::kQ4_K);
    if (layer < 2 || layer >= 14) {
      EXPECT_EQ(type, GgmlType::kQ6_K) << layer;
    }
    sensitive += type == GgmlType::kQ6_K;
  }
  EXPECT_EQ(sensitive, 8);  // layers 0, 1, 4, 7, 10, 13, 14 and 15
  rig.save("q3_k_m");
  EXPECT_EQ(rig.type("q3_k_m", "output.weight"), GgmlType::kQ6_K);
  EXPECT_EQ(rig.type("q3_k_m", "blk.1.ffn_down.weight"), GgmlType::kQ5_K);
  EXPECT_EQ(rig.type("q3_k_m", "blk.9.ffn_down.weight"), GgmlType::kQ4_K);
  EXPECT_EQ(rig.type("q3_k_m", "blk.9.attn_output.weight"), GgmlType::kQ4_K);
  EXPECT_EQ(rig.type("q3_k_m", "blk.9.attn_k.weight"), GgmlType::kQ3_K);
  ArchSpec tied = rig.model.spec();
  tied.tied_head = true;
  const GgufRecipe& mix = *find_gguf_recipe("q4_k_m");
  EXPECT_EQ(gguf_type_of(mix, "token_embd.weight", {9, 256}, tied), GgmlType::kQ6_K);
  EXPECT_EQ(gguf_type_of(mix, "blk.3.attn_qkv.weight", {9, 256}, tied), GgmlType::kQ5_K);
  EXPECT_EQ(gguf_type_of(mix, "position_embd.weight", {9, 256}, tied), GgmlType::kF32);
}

TEST(SaveGgufTypes, RoundsTwiceOnlyWithLeave) {
  Rig rig;
  rig.save("q4_k");
  const std::string from = rig.path("q4_k");
  expect_error(Code::kUsage, "is Q4_K already, and Q3_K would round it a second time",
               [&] { rig.save("q3_k", {}, from); });
  expect_error(Code::kUsage, "give --requantize", [&] { rig.save("q4_0", {}, from); });  // as many bits, other levels
  EXPECT_FALSE(std::filesystem::exists(rig.path("q3_k")));
  rig.save("q3_k", {.requantise = true}, from);
  EXPECT_EQ(rig.type("q3_k", "blk.0.attn_q.weight"), GgmlType::kQ3_K);
  for (const char* more : {"q8_0", "q6_k", "f16", "f32"}) rig.save(more, {}, from);
  rig.save("bf16");
  rig.save("q2_k", {}, rig.path("bf16"));  // floats need no leave
}

// Also those whose rows change places on the way to Hugging Face's names, and back.
TEST(SaveGgufTypes, WhatHasItsTypeIsCopied) {
  Rig rig;
  rig.save("q4_k_m");
  const std::string from = rig.path("q4_k_m");
  rig.save("q4_k", {.requantise = true}, from);
  const GgufFile before = GgufFile::open(from), after = GgufFile::open(rig.path("q4_k"));
  int copied = 0;
  for (const GgufTensor& tensor : before.tensors()) {
    const GgufTensor& other = *after.find(tensor.name);
    if (other.type != tensor.type) continue;
    const auto a = before.data(tensor), b = after.data(other);
    EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end())) << tensor.name;
    ++copied;
  }
  EXPECT_EQ(copied, int(before.tensors().size()) - 1);  // the head has another type
}

TEST(SaveGgufTypes, NamesTheTensorWithNumbersThatNoTypeHolds) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 1e6f}) {
    Rig rig;
    Tensor& weights = rig.model.params()[3].master;
    weights.as<float>()[weights.size() - 1] = bad;
    save_model(rig.ctx, rig.model, rig.folder / "m", {.sync = false});
    if (bad == 1e6f) {
      expect_error(Code::kUnsupported, "holds 1000000, and Q4_K reaches to 65504", [&] { rig.save("q4_k"); });
      rig.save("bf16");
    } else {
      expect_error(Code::kBadData, "layers.0", [&] { rig.save("q4_k"); });
    }
    EXPECT_FALSE(std::filesystem::exists(rig.path("q4_k")));
    EXPECT_FALSE(std::filesystem::exists(rig.path("q4_k") + ".tmp"));
  }
}

}  // namespace
}  // namespace espalier
