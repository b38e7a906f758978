#include "models/save_gguf.h"

#include <cstring>
#include <filesystem>

#include <gtest/gtest.h>

#include "base/json_value.h"
#include "formats/gguf.h"
#include "formats/gguf_blocks.h"
#include "formats/gguf_writer.h"
#include "formats/test_folder.h"
#include "models/gguf_arch.h"
#include "models/gguf_tokenizer.h"
#include "models/golden_model.h"
#include "models/init.h"
#include "models/registry.h"
#include "models/save.h"

namespace espalier {
namespace {

struct Machine {
  ThreadPool pool{2};
  Context ctx{pool, silent_log(), choose_isa()};
};

/// The golden model under a configuration that GGUF can say: llama.cpp knows one pattern of layers and one scale of
/// scores for each of these families, and the golden ones have others on purpose.
void put_sayable(const std::string& name, const std::string& folder) {
  std::filesystem::copy(golden_folder(name), folder);
  Json config = parse_json(read_file(folder + "/config.json"), name);
  const Json two_windows = {"sliding_attention", "sliding_attention"};
  if (name == "qwen2") config.update({{"use_sliding_window", false}, {"layer_types", nullptr}});
  if (name.starts_with("gemma")) config["query_pre_attn_scalar"] = config.at("head_dim");
  if (name == "gemma3") config["layer_types"] = two_windows;
  if (name == "smollm3") config["no_rope_layers"] = {1, 1};
  put_file(folder + "/config.json", config.dump());
}

std::vector<float> numbers_of(const GgufFile& file, std::string_view name) {
  const GgufTensor* tensor = file.find(name);
  EXPECT_NE(tensor, nullptr) << name;
  if (!tensor) return {};
  std::vector<float> numbers(size_t(tensor->shape.size()));
  dequantise(tensor->type, file.data(*tensor).data(), tensor->shape.size(), numbers.data(), "test");
  return numbers;
}

TEST(SaveGguf, EveryFamilySurvivesInF32BitForBit) {
  for (const std::string& name : golden_names()) {
    Machine m;
    TestFolder folder;
    put_sayable(name, folder / "m");
    save_gguf(m.ctx, folder / "m", folder / "m.gguf", {.sync = false});
    const auto model = load_model(m.ctx, one_process_mesh(), folder / "m", {.train = true});
    const auto loaded = load_model(m.ctx, one_process_mesh(), folder / "m.gguf", {.train = true});
    ASSERT_EQ(loaded->params().size(), model->params().size()) << name;
    for (size_t i = 0; i < loaded->params().size(); ++i) {
      const Tensor &x = model->params()[i].master, &y = loaded->params()[i].master;
      ASSERT_TRUE(x.shape() == y.shape()) << name << model->params()[i].name;
      ASSERT_GT(x.size(), 0) << name << model->params()[i].name;
      // Norms that are stored one larger lose the last bits of what is near 0: half an ulp of a number in [1, 2).
      for (int64_t j = 0; j < x.size(); ++j)
        ASSERT_NEAR(x.as<float>()[j], y.as<float>()[j], name.starts_with("gemma") ? 0x1p-24 : 0)
            << name << " " << model->params()[i].name << " " << j;
    }
  }
}

TEST(SaveGguf, AConfigurationComesBackAsItWas) {
  for (const std::string& name : golden_names()) {
    Machine m;
    TestFolder folder;
    put_sayable(name, folder / "m");
    save_gguf(m.ctx, folder / "m", folder / "m.gguf", {.sync = false});
    const ArchSpec before = load_spec(folder / "m"), after = load_spec(folder / "m.gguf");
    EXPECT_EQ(write_config(before, DType::kF32).dump(1), write_config(after, DType::kF32).dump(1)) << name;
  }
}

// What llama.cpp's converter does: LlamaModel.permute, reshape(heads, 2, D / 2, in).swapaxes(1, 2).
TEST(SaveGguf, TurnsTheRowsOfQueriesAndKeysIntoPairs) {
  Machine m;
  TestFolder folder;
  save_gguf(m.ctx, golden_folder("llama3"), folder / "m.gguf", {.sync = false});
  const ArchSpec spec = load_spec(golden_folder("llama3"));
  const SafetensorsFolder theirs = SafetensorsFolder::open(golden_folder("llama3"));
  const GgufFile file = GgufFile::open(folder / "m.gguf");
  const Tensor k = theirs.tensor("model.layers.1.self_attn.k_proj.weight");
  Tensor wide(DType::kF32, k.shape());
  kernels(m.ctx).copy(m.ctx, {.src = k.mat(), .dst = wide.mat()});
  const std::vector<float> ours = numbers_of(file, "blk.1.attn_k.weight");
  const int64_t half = spec.head_size / 2, cols = spec.width;
  for (int64_t head = 0; head < spec.kv_heads; ++head)
    for (int64_t j = 0; j < half; ++j)
      for (int64_t s = 0; s < 2; ++s)
        for (int64_t c = 0; c < cols; ++c)
          ASSERT_EQ(ours[size_t(((head * half + j) * 2 + s) * cols + c)],
                    wide.as<float>()[((head * 2 + s) * half + j) * cols + c]);
  EXPECT_EQ(file.metadata().text("general.architecture"), "llama");
  EXPECT_EQ(file.metadata().integer("llama.attention.head_count_kv"), spec.kv_heads);
  EXPECT_EQ(file.metadata().integer("llama.vocab_size"), spec.vocab);
}

TEST(SaveGguf, TurnsConv1dOfGpt2) {
  Machine m;
  TestFolder folder;
  save_gguf(m.ctx, golden_folder("gpt2"), folder / "m.gguf", {.sync = false});
  const GgufFile file = GgufFile::open(folder / "m.gguf");
  const ArchSpec spec = load_spec(golden_folder("gpt2"));
  EXPECT_TRUE(file.find("blk.0.ffn_up.weight")->shape == (Shape{spec.ffn, spec.width}));
  EXPECT_EQ(file.find("output.weight"), nullptr);  // tied
}

TEST(SaveGguf, EveryTypeIsWithinItsRounding) {
  Machine m;
  ArchSpec spec = load_spec(golden_folder("llama3"));
  spec.width = 64;
  spec.head_size = 16;
  spec.heads = 4;
  spec.kv_heads = 2;
  spec.ffn = 96;
  Decoder model(spec, one_process_mesh(), DType::kF32, true);
  initialise(m.ctx, model, 5);
  TestFolder folder;
  save_model(m.ctx, model, folder / "m", {.sync = false});
  // Half a step: relative to the number for the floats (of f16's subnormal ones 2^-25); for the blocks a part of the
  // largest number, whose step itself is rounded to f16. The lowest level of Q4_0 and Q5_0 has no counterpart above, so
  // that a number near the largest, of the other sign, is a whole step off.
  struct Row {
    const char* dtype;
    GgmlType type;
    double relative, of_largest, absolute;
  };
  constexpr double kHalf = 0x1p-11;
  for (const Row row : {Row{"f16", GgmlType::kF16, kHalf, 0, 0x1p-25}, Row{"bf16", GgmlType::kBF16, 0x1p-8, 0, 0},
                        Row{"q8_0", GgmlType::kQ8_0, 0, 0.5 / 127 + kHalf, 0},
                        Row{"q4_0", GgmlType::kQ4_0, 0, 1.0 / 8 + kHalf, 0},
                        Row{"q5_0", GgmlType::kQ5_0, 0, 1.0 / 16 + kHalf, 0},
                        Row{"q4_1", GgmlType::kQ4_1, 0, 1.0 / 15 + 2 * kHalf, 0},
                        Row{"q5_1", GgmlType::kQ5_1, 0, 1.0 / 31 + 2 * kHalf, 0}}) {
    save_gguf(m.ctx, folder / "m", folder / "m.gguf", {.dtype = row.dtype, .sync = false});
    EXPECT_EQ(GgufFile::open(folder / "m.gguf").find("blk.0.attn_q.weight")->type, row.type);
    EXPECT_EQ(GgufFile::open(folder / "m.gguf").find("blk.0.attn_norm.weight")->type, GgmlType::kF32);
    const auto loaded = load_model(m.ctx, one_process_mesh(), folder / "m.gguf", {});
    for (size_t i = 0; i < loaded->params().size(); ++i) {
      const Tensor &x = model.params()[i].master, &y = loaded->params()[i].master;
      float largest = 0;
      for (int64_t j = 0; j < x.size(); ++j) largest = std::max(largest, std::abs(x.as<float>()[j]));
      for (int64_t j = 0; j < x.size(); ++j) {
        const double w = x.as<float>()[j];
        ASSERT_NEAR(y.as<float>()[j], w, std::abs(w) * row.relative + largest * row.of_largest + row.absolute)
            << ggml_type_name(row.type) << " " << model.params()[i].name;
      }
    }
  }
}

TEST(SaveGguf, AGgufOfAGgufIsTheSame) {
  Machine m;
  TestFolder folder;
  for (const char* name : {"llama3", "gpt2"}) {
    save_gguf(m.ctx, golden_folder(name), folder / "a.gguf", {.sync = false});
    std::filesystem::create_directories(folder / "again");
    save_gguf(m.ctx, folder / "a.gguf", folder / "again/a.gguf", {.sync = false});
    EXPECT_EQ(read_file(folder / "a.gguf"), read_file(folder / "again/a.gguf")) << name;
  }
}

TEST(SaveGguf, CarriesTokenizerAndTemplate) {
  Machine m;
  TestFolder folder;
  std::filesystem::copy(golden_folder("gpt2"), folder / "m");
  const std::string golden = std::string(ESP_SOURCE_DIR) + "/tests/golden/tokenizer/gpt2.json";
  const Tokenizer before = Tokenizer::load(golden);
  ArchSpec spec = load_spec(folder / "m");
  spec.vocab = before.vocab_size() + 3;
  Decoder model(spec, one_process_mesh(), DType::kF32, true);
  initialise(m.ctx, model, 5);
  save_model(m.ctx, model, folder / "m", {.sync = false});
  std::filesystem::copy_file(golden, folder / "m/tokenizer.json");
  put_file(folder / "m/chat_template.jinja", "{{ messages }}");
  save_gguf(m.ctx, folder / "m", folder / "m.gguf", {.sync = false});
  const GgufFile file = GgufFile::open(folder / "m.gguf");
  const Tokenizer after = load_gguf_tokenizer(file);
  EXPECT_EQ(after.vocab_hash(), before.vocab_hash());
  for (const char* text : {"Hello, world! 123\n", "  two  spaces", "über 大小 \U0001F600", "<|endoftext|>x"})
    EXPECT_EQ(after.encode(text), before.encode(text)) << text;
  EXPECT_EQ(file.metadata().texts("tokenizer.ggml.tokens")->size(), size_t(spec.vocab));
  EXPECT_EQ(gguf_chat_template(file), "{{ messages }}");
  EXPECT_EQ(gguf_chat_template(GgufFile::open(folder / "m.gguf")), "{{ messages }}");
}

TEST(SaveGguf, RefusesWhatGgufCannotSay) {
  Machine m;
  ArchSpec spec = load_spec(golden_folder("llama2"));
  spec.parallel_block = true;
  Decoder model(spec, one_process_mesh(), DType::kF32, true);
  initialise(m.ctx, model, 5);
  TestFolder folder;
  save_model(m.ctx, model, folder / "m", {.sync = false});
  expect_error(Code::kUnsupported, "no architecture for models of type 'espalier_llama'",
               [&] { save_gguf(m.ctx, folder / "m", folder / "m.gguf", {.sync = false}); });
  EXPECT_FALSE(std::filesystem::exists(folder / "m.gguf.tmp"));
}

TEST(SaveGguf, RopeScalingIsSaidOrRefused) {
  Machine m;
  const auto convert = [&](const Json& scaling) {
    TestFolder folder;
    std::filesystem::copy(golden_folder("llama2"), folder / "m");
    Json config = parse_json(read_file(folder / "m/config.json"), "m");
    config["rope_parameters"].update(scaling);
    put_file(folder / "m/config.json", config.dump());
    save_gguf(m.ctx, folder / "m", folder / "m.gguf", {.sync = false});
    EXPECT_EQ(load_spec(folder / "m"), load_spec(folder / "m.gguf")) << scaling;
  };
  convert({{"rope_type", "linear"}, {"factor", 2.5}});
  convert({{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 16}});
  convert({{"rope_type", "llama3"}, {"factor", 8.0}, {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0},
           {"original_max_position_embeddings", 16}});
  const Json fast = {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 16},
                     {"beta_fast", 16.0}};
  expect_error(Code::kUnsupported, "GGUF cannot say its 'rope_scaling'", [&] { convert(fast); });
  expect_error(Code::kUnsupported, "its rope scaling cannot be written in GGUF",
               [&] { convert({{"rope_type", "dynamic"}, {"factor", 2.0}}); });
}

TEST(SaveGguf, RefusesAConfigurationThatWouldBeReadAsAnother) {
  Machine m;
  TestFolder folder;
  for (const auto& [name, field] : {std::pair{"qwen2", "its 'use_sliding_window' is true, and would be read as false"},
                                    std::pair{"gemma2", "its 'query_pre_attn_scalar' is 5, and would be read as 6"},
                                    std::pair{"gemma3", "its 'query_pre_attn_scalar' is 5"},
                                    std::pair{"smollm3", "its 'no_rope_layers' is [1,0], and would be read as [1,1]"}})
    expect_error(Code::kUnsupported, field,
                 [&] { save_gguf(m.ctx, golden_folder(name), folder / "m.gguf", {.sync = false}); });
  EXPECT_FALSE(std::filesystem::exists(folder / "m.gguf"));
  EXPECT_FALSE(std::filesystem::exists(folder / "m.gguf.tmp"));
}

/// A small llama as a GGUF, with the metadata of `change` in it.
template <class F>
std::string changed_llama(Context& ctx, const TestFolder& folder, F&& change) {
  save_gguf(ctx, golden_folder("llama2"), folder / "a.gguf", {.sync = false});
  const GgufFile file = GgufFile::open(folder / "a.gguf");
  GgufMetadataBuilder metadata;
  std::vector<PlannedGgufTensor> plan;
  for (const GgufTensor& t : file.tensors()) plan.push_back({std::string(t.name), t.type, t.shape});
  change(file, metadata, plan);
  GgufWriter writer(folder / "b.gguf", metadata, plan);
  for (const PlannedGgufTensor& t : plan) {
    const GgufTensor* from = file.find(t.name);
    const std::string zeros(t.bytes(), '\0');
    const bool same = from && from->bytes == t.bytes();
    writer.write_blocks(t.name, same ? static_cast<const void*>(file.data(*from).data()) : zeros.data(), t.bytes());
  }
  writer.finish(false);
  return folder / "b.gguf";
}

void copy_metadata(const GgufFile& file, GgufMetadataBuilder& metadata, std::string_view without = {}) {
  for (const std::string_view key : file.metadata().keys())
    if (key != without) metadata.put(key, *file.metadata().find(key));
}

TEST(LoadGguf, NamesWhatItDoesNotDo) {
  Machine m;
  TestFolder folder;
  const auto load = [&](const std::string& path) { load_model(m.ctx, one_process_mesh(), path, {}); };
  using Plan = std::vector<PlannedGgufTensor>;
  const auto with = [&](std::string_view without, auto&& put) {
    return changed_llama(m.ctx, folder, [&](const GgufFile& file, GgufMetadataBuilder& metadata, Plan&) {
      copy_metadata(file, metadata, without);
      put(metadata);
    });
  };
  expect_error(Code::kUnsupported, "'general.architecture' is 'mamba'", [&] {
    load(with("general.architecture", [](auto& b) { b.put("general.architecture", "mamba"); }));
  });
  expect_error(Code::kBadData, "'llama.block_count' is missing",
               [&] { load(with("llama.block_count", [](auto&) {})); });
  expect_error(Code::kBadData, "'llama.block_count' is string", [&] {
    load(with("llama.block_count", [](auto& b) { b.put("llama.block_count", "2"); }));
  });
  expect_error(Code::kUnsupported, "mixture of 8 experts",
               [&] { load(with("", [](auto& b) { b.put("llama.expert_count", 8u); })); });
  expect_error(Code::kUnsupported, "'llama.rope.dimension_count' is 4", [&] {
    load(with("llama.rope.dimension_count", [](auto& b) { b.put("llama.rope.dimension_count", 4u); }));
  });
  expect_error(Code::kUnsupported, "longrope", [&] {
    load(with("", [](auto& b) {
      b.put("llama.rope.scaling.type", "longrope");
      b.put("llama.rope.scaling.factor", 2.0f);
    }));
  });
}

TEST(LoadGguf, NamesTensorsThatAreWrong) {
  Machine m;
  TestFolder folder;
  const auto load = [&](const std::string& path) { load_model(m.ctx, one_process_mesh(), path, {}); };
  using Plan = std::vector<PlannedGgufTensor>;
  const auto with = [&](auto&& change) {
    return changed_llama(m.ctx, folder, [&](const GgufFile& file, GgufMetadataBuilder& metadata, Plan& plan) {
      copy_metadata(file, metadata);
      change(plan);
    });
  };
  expect_error(Code::kBadData, "model.norm.weight is missing; the metadata promises it", [&] {
    load(with([](Plan& plan) { std::erase_if(plan, [](auto& t) { return t.name == "output_norm.weight"; }); }));
  });
  expect_error(Code::kUnsupported, "blk.0.attn_sinks.weight has no place",
               [&] { load(with([](Plan& p) { p.push_back({"blk.0.attn_sinks.weight", GgmlType::kF32, {4}}); })); });
  expect_error(Code::kMismatch, "self_attn.q_proj.weight is [1, 32]; the metadata makes it", [&] {
    load(with([](Plan& plan) {
      for (auto& t : plan)
        if (t.name == "blk.0.attn_q.weight") t.shape = {1, 32};
    }));
  });
  expect_error(Code::kUnsupported, "rope_freqs.weight holds 0",
               [&] { load(with([](Plan& plan) { plan.push_back({"rope_freqs.weight", GgmlType::kF32, {4}}); })); });
}

TEST(LoadGguf, RefusesNumbersThatAreNotFinite) {
  Machine m;
  TestFolder folder;
  save_gguf(m.ctx, golden_folder("llama2"), folder / "m.gguf", {.sync = false});
  std::string bytes = read_file(folder / "m.gguf");
  const GgufFile file = GgufFile::open(folder / "m.gguf");
  const float nan = std::nanf("");
  for (const char* name : {"blk.1.attn_k.weight", "blk.1.ffn_norm.weight"}) {
    std::string damaged = bytes;
    std::memcpy(damaged.data() + file.find(name)->begin + 8, &nan, sizeof nan);
    put_file(folder / "damaged.gguf", damaged);
    expect_error(Code::kBadData, fmt::format("tensor {} holds NaN", name),
                 [&] { load_model(m.ctx, one_process_mesh(), folder / "damaged.gguf", {}); });
  }
}

TEST(GgufArch, NamesGoBothWays) {
  const GgufArch& llama = *find_gguf_arch("llama");
  EXPECT_EQ(gguf_to_config_name(llama, "blk.12.attn_q.bias"), "model.layers.12.self_attn.q_proj.bias");
  EXPECT_EQ(config_to_gguf_name(llama, "model.layers.12.self_attn.q_proj.bias"), "blk.12.attn_q.bias");
  EXPECT_EQ(gguf_to_config_name(llama, "output_norm.weight"), "model.norm.weight");
  EXPECT_EQ(config_to_gguf_name(*find_gguf_arch("gemma3"), "model.layers.0.pre_feedforward_layernorm.weight"),
            "blk.0.ffn_norm.weight");
  for (const char* name : {"blk.x.attn_q.weight", "blk..attn_q.weight", "blk.1", "blk.1.nothing.weight", "", "output"})
    EXPECT_EQ(gguf_to_config_name(llama, name).value_or("none"), name == std::string("output") ? "lm_head" : "none");
  EXPECT_EQ(find_gguf_arch("mamba"), nullptr);
  EXPECT_EQ(find_gguf_arch_of("mistral"), &llama);
}

}  // namespace
}  // namespace espalier
