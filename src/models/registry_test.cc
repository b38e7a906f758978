#include "models/registry.h"

#include <gtest/gtest.h>

#include "base/json_value.h"
#include "formats/test_folder.h"
#include "models/golden_model.h"

namespace espalier {
namespace {

Json golden_config(const std::string& name) {
  return read_json_file(golden_folder(name) + "/config.json");
}

ArchSpec round_trip(const ArchSpec& spec) {
  return read_config(Json::parse(write_config(spec, DType::kF32).dump()), "written config");
}

TEST(Registry, EveryGoldenConfigSurvivesBeingWritten) {
  for (const std::string& name : golden_names()) {
    const ArchSpec spec = read_config(golden_config(name), name);
    EXPECT_TRUE(round_trip(spec) == spec) << name;
    const OrderedJson written = write_config(spec, DType::kBF16);
    EXPECT_EQ(written.at("model_type"), golden_config(name).at("model_type")) << name;
    EXPECT_EQ(written.at("architectures"), golden_config(name).at("architectures")) << name;
    EXPECT_EQ(written.at("torch_dtype"), "bfloat16");
  }
}

TEST(Registry, EveryChoiceSurvivesInEveryFamily) {
  for (const std::string& name : golden_names())
    for (int choice = 0; choice < 8; ++choice) {
      ArchSpec spec = read_config(golden_config(name), name);
      spec.parallel_block = choice & 1;
      spec.window = choice & 2 ? 5 : 0;
      if (spec.window == 0) spec.full_attention.clear();
      spec.tied_head = choice & 4;
      if (choice & 4) spec.bos = std::nullopt;
      ArchSpec found = round_trip(spec);
      // Llama with a window is Mistral, and is written so.
      if (spec.family == "llama" && spec.window > 0 && !spec.parallel_block) found.family = "llama";
      EXPECT_TRUE(found == spec) << name << " " << choice;
    }
}

TEST(Registry, LlamaWithAWindowIsWrittenAsMistral) {
  ArchSpec spec = read_config(golden_config("llama2"), "llama2");
  spec.window = 9;
  EXPECT_EQ(write_config(spec, DType::kF32).at("model_type"), "mistral");
  EXPECT_EQ(write_config(spec, DType::kF32).at("sliding_window"), 9);
  spec.qkv_bias = spec.out_bias = true;  // which Mistral has not
  EXPECT_EQ(write_config(spec, DType::kF32).at("model_type"), "espalier_llama");
  EXPECT_TRUE(round_trip(spec) == spec);
  spec.qkv_bias = spec.out_bias = false;
  spec.parallel_block = true;
  EXPECT_EQ(write_config(spec, DType::kF32).at("model_type"), "espalier_llama");
  EXPECT_FALSE(write_config(spec, DType::kF32).contains("architectures")) << "transformers must not take it for Llama";
}

TEST(Registry, WhatNoFieldSaysIsNotWritten) {
  ArchSpec spec = read_config(golden_config("llama2"), "llama2");
  spec.qk_norm = QkNorm::kHeads;
  expect_error(Code::kUnsupported, "no field of a llama says all", [&] { write_config(spec, DType::kF32); });
}

TEST(Registry, RopeScalingsAreReadInTheOldAndTheNewPlace) {
  Json config = golden_config("llama2");
  config.erase("rope_parameters");
  config["rope_theta"] = 500.0;
  config["rope_scaling"] = {{"type", "linear"}, {"factor", 4}};
  ArchSpec spec = read_config(config, "config");
  EXPECT_EQ(spec.rope_theta, 500);
  EXPECT_EQ(spec.rope_scaling.kind, RopeScaling::Kind::kLinear);
  EXPECT_EQ(spec.rope_scaling.factor, 4);
  config["rope_scaling"] = nullptr;
  EXPECT_EQ(read_config(config, "config").rope_scaling.kind, RopeScaling::Kind::kNone);
  config["rope_scaling"] = {{"rope_type", "default"}};
  EXPECT_EQ(read_config(config, "config").rope_scaling.kind, RopeScaling::Kind::kNone);
}

TEST(Registry, SeveralEndTokensAreReadAndWrittenInEveryFamily) {
  for (const std::string& name : golden_names()) {
    Json config = golden_config(name);
    config["eos_token_id"] = {7, 8, 7, -1, 3};  // a repeated one counts once, one below 0 is none
    const ArchSpec spec = read_config(config, name);
    EXPECT_EQ(spec.eos, 7) << name;
    EXPECT_EQ(spec.more_eos, (std::vector<int64_t>{8, 3})) << name;
    for (const int64_t id : {7, 8, 3}) EXPECT_TRUE(spec.ends_text(id)) << name;
    for (const int64_t id : {-1, 0, 2}) EXPECT_FALSE(spec.ends_text(id)) << name;
    EXPECT_EQ(write_config(spec, DType::kF32).at("eos_token_id"), OrderedJson({7, 8, 3})) << name;
    EXPECT_TRUE(round_trip(spec) == spec) << name;
  }
}

TEST(Registry, EndTokensMayBeOneOrNone) {
  Json config = golden_config("llama2");
  config["eos_token_id"] = {7};
  EXPECT_EQ(write_config(read_config(config, "config"), DType::kF32).at("eos_token_id"), 7);
  for (const Json& none : {Json(nullptr), Json(-1), Json::array()}) {
    config["eos_token_id"] = none;
    EXPECT_EQ(read_config(config, "config").eos, std::nullopt) << none;
    EXPECT_FALSE(read_config(config, "config").ends_text(0));
  }
}

struct BadConfig {
  const char* base;
  const char* key;
  Json value;  ///< null: the key is taken out
  Code code;
  const char* part;  ///< of the message
};

TEST(Registry, WhatWeCannotRunIsNamed) {
  const BadConfig cases[] = {
      {"llama2", "model_type", "lama", Code::kUnsupported,
       "'lama' is not one that Espalier runs (did you mean 'llama'?)"},
      {"llama2", "model_type", "rwkv", Code::kUnsupported, "`espalier list models`"},
      {"llama2", "model_type", "espalier_rwkv", Code::kUnsupported, "'rwkv'"},
      {"llama2", "model_type", nullptr, Code::kBadData, "\"model_type\" is missing"},
      {"llama2", "hidden_act", "mish", Code::kUnsupported, "hidden_act 'mish'"},
      {"gpt2", "activation_function", "mish", Code::kUnsupported, "activation_function 'mish'"},
      {"gpt2", "scale_attn_by_inverse_layer_idx", true, Code::kUnsupported, "scale_attn_by_inverse_layer_idx"},
      {"gpt2", "scale_attn_weights", false, Code::kUnsupported, "scale_attn_weights"},
      {"llama2", "quantization_config", {{"bits", 4}}, Code::kUnsupported, "quantization_config"},
      {"llama2", "hidden_size", nullptr, Code::kBadData, "\"hidden_size\" is missing"},
      {"llama2", "hidden_size", "24", Code::kBadData, "\"hidden_size\" is \"24\"; expected an integer"},
      {"llama2", "hidden_size", 24.5, Code::kBadData, "\"hidden_size\" is 24.5"},
      {"llama2", "num_hidden_layers", -1, Code::kBadData, "number of layers is -1"},
      {"llama2", "num_attention_heads", 0, Code::kBadData, "num_attention_heads is 0"},
      {"llama2", "num_key_value_heads", 3, Code::kBadData, "4 heads cannot share 3"},
      {"llama2", "vocab_size", 1e12, Code::kBadData, "vocabulary size"},
      {"llama2", "rope_parameters", {{"rope_type", "longrope"}, {"factor", 4}}, Code::kUnsupported,
       "rope scaling 'longrope'"},
      {"llama2", "rope_parameters", {{"rope_theta", 0}}, Code::kBadData, "rope_theta is 0"},
      {"llama3", "rope_parameters", {{"rope_type", "linear"}, {"factor", 0.5}}, Code::kBadData, "factor is 0.5"},
      {"llama3", "rope_parameters", {{"rope_type", "linear"}}, Code::kBadData, "\"factor\" is missing"},
      {"llama3", "rope_parameters",
       {{"rope_type", "llama3"}, {"factor", 8}, {"low_freq_factor", 4}, {"high_freq_factor", 4},
        {"original_max_position_embeddings", 16}},
       Code::kBadData, "low_freq_factor < high_freq_factor"},
      {"llama2", "eos_token_id", "</s>", Code::kBadData, "\"eos_token_id\" is \"</s>\"; expected an id or a list"},
      {"llama2", "eos_token_id", {2, {3}}, Code::kBadData, "\"eos_token_id\" is [2,[3]]"},
      {"llama2", "eos_token_id", {{"id", 2}}, Code::kBadData, "expected an id or a list of ids"},
      {"llama2", "eos_token_id", Json(std::vector<int>(5000, 1)), Code::kBadData, "lists 5000 ids"},
      {"mistral", "sliding_window", -7, Code::kBadData, "sliding window is -7"},
      {"gpt2", "n_head", 5, Code::kBadData, "n_embd 24 is not a multiple of n_head 5"},
  };
  for (const BadConfig& c : cases) {
    SCOPED_TRACE(fmt::format("{} {}", c.base, c.key));
    Json config = golden_config(c.base);
    if (c.value.is_null())
      config.erase(c.key);
    else
      config[c.key] = c.value;
    expect_error(c.code, c.part, [&] { read_config(config, "config.json"); });
  }
  expect_error(Code::kBadData, "model_type", [] { read_config(Json::array(), "config.json"); });
}

TEST(Registry, NamesOfLayers) {
  EXPECT_EQ(layer_name("layers.31.ffn.up.weight").layer, 31);
  EXPECT_EQ(layer_name("layers.31.ffn.up.weight").rest, "ffn.up.weight");
  EXPECT_EQ(layer_name("head.weight").layer, -1);
  EXPECT_EQ(layer_name("head.weight").rest, "head.weight");
}

TEST(Registry, TheirTensorsTileOurs) {
  for (const std::string& name : golden_names()) {
    const ArchSpec spec = read_config(golden_config(name), name);
    for (const WeightInfo& w : weight_list(spec)) {
      const auto parts = family(spec.family, "test").parts(spec, w.name);
      const int64_t rows = w.rows ? w.rows : w.cols;
      int64_t next = 0;
      std::map<std::string, int64_t> theirs;
      for (const TensorPart& part : parts) {
        EXPECT_EQ(part.row, next) << part.name;
        next += part.rows ? part.rows : rows;
        if (part.their_rows) theirs[part.name] += part.rows;
      }
      for (const auto& [tensor, filled] : theirs) EXPECT_EQ(filled, parts[0].their_rows) << tensor;
      EXPECT_EQ(next, rows) << name << " " << w.name;
    }
  }
}

}  // namespace
}  // namespace espalier
