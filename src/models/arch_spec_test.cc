#include "models/arch_spec.h"

#include <gtest/gtest.h>

#include "formats/test_folder.h"
#include "models/golden_model.h"

namespace espalier {
namespace {

TEST(ArchSpec, ParametersAreAsManyAsTheFilesHold) {
  for (const std::string& name : golden_names()) {
    const std::string folder = golden_folder(name);
    const SafetensorsFolder files = SafetensorsFolder::open(folder);
    int64_t numbers = 0;
    for (const std::string& tensor : files.names()) numbers += files.find(tensor)->shape.size();
    EXPECT_EQ(parameter_count(load_spec(folder)), numbers) << name;
  }
}

TEST(ArchSpec, WeightsAreAllDifferentAndSoManyInTotal) {
  ArchSpec s = load_spec(golden_folder("llama2"));
  const int64_t whole = parameter_count(s);
  s.parallel_block = true;  // one norm a layer less
  EXPECT_EQ(parameter_count(s), whole - s.layers * s.width);
  s.tied_head = true;
  EXPECT_EQ(parameter_count(s), whole - s.layers * s.width - s.vocab * s.width);
}

ArchSpec one_layer() {
  ArchSpec s;
  s.family = "gpt2";
  s.layers = 1;
  s.width = 2;
  s.heads = s.kv_heads = 1;
  s.head_size = 2;
  s.ffn = 8;
  s.vocab = 10;
  s.positions = 8;
  return s;
}

// By hand, multiplications and additions of a token going forward: qkv 2 x 6, out 2 x 2, up 2 x 8, down 8 x 2, head
// 2 x 10 make 68 products, 2 x 68 = 136 operations; a key costs 2 products for its score and 2 for its value, so 4
// keys 4 * 4 * 2 = 32 operations, and half of them on average when causal. Backward costs twice as much again.
TEST(ArchSpec, FlopsEqualAHandCount) {
  ArchSpec s = one_layer();
  EXPECT_EQ(train_flops_per_token(s, 4, AttentionCount::kFull), 3 * (136 + 4 * 2 * 4));
  EXPECT_EQ(train_flops_per_token(s, 4, AttentionCount::kCausal), 3 * (136 + 4 * 2 * 2.5));
  s.gated_ffn = true;  // a second product as large as up
  EXPECT_EQ(train_flops_per_token(s, 4, AttentionCount::kFull), 3 * (136 + 2 * 16 + 4 * 2 * 4));
  s.tied_head = true;  // the head's product stays
  EXPECT_EQ(train_flops_per_token(s, 4, AttentionCount::kFull), 3 * (136 + 2 * 16 + 4 * 2 * 4));
  s.heads = 4;
  s.kv_heads = 2;  // q 2 x 8, k and v 2 x 4 each, out 8 x 2 instead of 12 + 4
  EXPECT_EQ(train_flops_per_token(s, 4, AttentionCount::kFull), 3 * (136 + 2 * 16 + 2 * (48 - 16) + 4 * 8 * 4));
}

TEST(ArchSpec, MeanKeysCountWhatARowSees) {
  ArchSpec s = one_layer();
  for (const int64_t window : {0, 1, 3, 7, 20}) {
    s.window = window;
    int64_t seen = 0;
    for (int64_t row = 0; row < 7; ++row) seen += std::min(row + 1, window > 0 ? window : int64_t{7});
    EXPECT_NEAR(mean_keys(s, 7, AttentionCount::kCausal), double(seen) / 7, 1e-14) << window;
    EXPECT_EQ(mean_keys(s, 7, AttentionCount::kFull), 7);
  }
}

TEST(ArchSpec, NumbersThatMakeNoModelAreNamed) {
  const auto refused = [](void (*change)(ArchSpec&), const std::string& part) {
    ArchSpec s = one_layer();
    change(s);
    expect_error(Code::kBadData, part, [&] { validate(s, "spec"); });
  };
  validate(one_layer(), "spec");
  refused([](ArchSpec& s) { s.layers = 0; }, "number of layers is 0");
  refused([](ArchSpec& s) { s.width = -4; }, "width is -4");
  refused([](ArchSpec& s) { s.vocab = int64_t{1} << 40; }, "vocabulary size");
  refused([](ArchSpec& s) { s.heads = 3, s.kv_heads = 2; }, "3 heads cannot share 2");
  refused([](ArchSpec& s) { s.layers = 10'000, s.width = 1 << 20, s.ffn = 1 << 24; }, "weights; expected at most");
  refused([](ArchSpec& s) { s.head_size = 3, s.rope_theta = 100; }, "even head size");
  refused([](ArchSpec& s) { s.rope_theta = 1e-320; }, "rotary frequencies");
  refused([](ArchSpec& s) { s.rope_theta = 1e300; }, "rotary frequencies");
  refused([](ArchSpec& s) { s.norm_eps = -1e-5; }, "expected 0 to 1");
  refused([](ArchSpec& s) { s.norm_eps = 1e308; }, "expected 0 to 1");
  refused([](ArchSpec& s) { s.window = -1; }, "sliding window is -1");
}

}  // namespace
}  // namespace espalier
