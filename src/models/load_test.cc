#include "models/load.h"

#include <cstring>
#include <filesystem>

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/json.h"
#include "base/json_value.h"
#include "formats/gguf.h"
#include "formats/gguf_writer.h"
#include "formats/safetensors_writer.h"
#include "formats/test_folder.h"
#include "models/golden_model.h"
#include "models/init.h"
#include "models/save.h"
#include "models/save_gguf.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

struct Machine {
  ThreadPool pool{2};
  Context ctx{pool, silent_log(), choose_isa()};
};

void expect_same_weights(const Decoder& a, const Decoder& b) {
  ASSERT_EQ(a.params().size(), b.params().size());
  for (size_t i = 0; i < a.params().size(); ++i) {
    const Tensor &x = a.params()[i].master, &y = b.params()[i].master;
    ASSERT_TRUE(x.shape() == y.shape()) << a.params()[i].name;
    EXPECT_EQ(0, std::memcmp(x.data(), y.data(), size_t(x.bytes()))) << a.params()[i].name;
  }
}

TEST(LoadSave, EveryFamilySurvivesInF32BitForBitInOneFileAndInMany) {
  for (const std::string& name : golden_names()) {
    GoldenModel g(name, choose_isa());
    for (const uint64_t shard : {uint64_t{5'000'000'000}, uint64_t{6000}, uint64_t{1}}) {
      TestFolder folder;
      save_model(g.ctx, *g.model, folder / "m", {.max_shard_bytes = shard, .sync = false});
      EXPECT_EQ(fs::exists(folder / "m/model.safetensors.index.json"), shard < 10'000) << name;
      expect_same_weights(*load_model(g.ctx, one_process_mesh(), folder / "m", {}), *g.model);
    }
  }
}

TEST(LoadSave, SavedTensorsAreNamedAndShapedAsTransformersDoes) {
  for (const std::string& name : golden_names()) {
    GoldenModel g(name, choose_isa());
    TestFolder folder;
    save_model(g.ctx, *g.model, folder / "m", {.sync = false});
    const SafetensorsFolder ours = SafetensorsFolder::open(folder / "m"), theirs = SafetensorsFolder::open(g.folder);
    EXPECT_EQ(std::set<std::string>(ours.names().begin(), ours.names().end()),
              std::set<std::string>(theirs.names().begin(), theirs.names().end()));
    for (const std::string& tensor : theirs.names()) {
      const Tensor a = ours.tensor(tensor), b = theirs.tensor(tensor);
      ASSERT_TRUE(a.shape() == b.shape()) << tensor;
      EXPECT_EQ(0, std::memcmp(a.data(), b.data(), size_t(a.bytes()))) << tensor;
    }
  }
}

TEST(LoadSave, HalfPrecisionRoundsToNearestOnce) {
  Machine m;
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    GoldenModel g("gpt2", choose_isa());
    TestFolder folder;
    save_model(g.ctx, *g.model, folder / "m", {.dtype = dtype, .sync = false});
    const auto loaded = load_model(m.ctx, one_process_mesh(), folder / "m", {});
    for (size_t i = 0; i < g.model->params().size(); ++i) {
      const Tensor &x = g.model->params()[i].master, &y = loaded->params()[i].master;
      for (int64_t j = 0; j < x.size(); ++j) {
        const float w = x.as<float>()[j];
        ASSERT_EQ(y.as<float>()[j], dtype == DType::kBF16 ? float(bf16(w)) : float(f16(w)));
      }
    }
    save_model(m.ctx, *loaded, folder / "again", {.dtype = dtype, .sync = false});  // and not a second time
    EXPECT_EQ(read_file(folder / "again/model.safetensors"), read_file(folder / "m/model.safetensors"));
  }
}

TEST(LoadSave, AParallelBlockWithAWindowSurvives) {
  Machine m;
  for (const std::string& name : golden_names()) {
    ArchSpec spec = load_spec(golden_folder(name));
    spec.parallel_block = true;
    spec.window = 5;
    Decoder model(spec, one_process_mesh(), DType::kF32, true);
    initialise(m.ctx, model, 4);
    TestFolder folder;
    save_model(m.ctx, model, folder / "m", {.sync = false});
    const auto loaded = load_model(m.ctx, one_process_mesh(), folder / "m", {});
    EXPECT_TRUE(loaded->spec().parallel_block);
    EXPECT_EQ(loaded->spec().window, 5);
    expect_same_weights(*loaded, model);
  }
}

TEST(LoadSave, SavingOverAModelKeepsTheTokenizerAndLeavesNoOldShard) {
  GoldenModel g("llama2", choose_isa());
  TestFolder folder;
  save_model(g.ctx, *g.model, folder / "m", {.max_shard_bytes = 6000, .sync = false});
  write_file_atomic(folder / "m/tokenizer.json", "{}");
  fs::create_directories(folder / "m/notes/deep");
  write_file_atomic(folder / "m/notes/deep/a.txt", "kept");
  save_model(g.ctx, *g.model, folder / "m/", {.sync = false});  // with a slash, as shells complete it
  EXPECT_EQ(read_file(folder / "m/tokenizer.json"), "{}");
  EXPECT_EQ(read_file(folder / "m/notes/deep/a.txt"), "kept");
  EXPECT_FALSE(fs::exists(folder / "m/model.safetensors.index.json"));
  EXPECT_FALSE(fs::exists(folder / "m.tmp"));
  EXPECT_FALSE(fs::exists(folder / "m/.tmp"));
  expect_same_weights(*load_model(g.ctx, one_process_mesh(), folder / "m", {}), *g.model);
}

TEST(LoadSave, AFolderThatCannotBeWrittenIsAnError) {
  GoldenModel g("llama2", choose_isa());
  TestFolder folder;
  write_file_atomic(folder / "file", "in the way");
  expect_error(Code::kIo, "file/m", [&] { save_model(g.ctx, *g.model, folder / "file/m", {}); });
  expect_error(Code::kIo, "in the place of", [&] { save_model(g.ctx, *g.model, folder / "file", {}); });
  EXPECT_EQ(list_folder(folder.path()).size(), 1u) << "what was begun is removed";
  expect_error(Code::kUsage, "the name of a folder", [&] { save_model(g.ctx, *g.model, "", {}); });
}

/// A golden model's tensors, to be changed and written as another folder.
struct Altered {
  TestFolder folder;
  std::map<std::string, Tensor> tensors;
  Json config;

  explicit Altered(const std::string& name) : config(read_json_file(golden_folder(name) + "/config.json")) {
    const SafetensorsFolder files = SafetensorsFolder::open(golden_folder(name));
    for (const std::string& tensor : files.names()) tensors[tensor] = files.tensor(tensor).clone();
  }
  void write(uint64_t shard = 1'000'000) {
    std::vector<PlannedTensor> plan;
    for (const auto& [name, tensor] : tensors) plan.push_back({name, tensor.dtype(), tensor.shape()});
    SafetensorsFolderWriter writer(folder.path(), plan, {.max_shard_bytes = shard});
    for (const auto& [name, tensor] : tensors) writer.write(name, tensor);
    writer.finish();
    write_file_atomic(folder / "config.json", config.dump());
  }
  void expect_refused(Code code, const std::string& part, uint64_t shard = 1'000'000) {
    write(shard);
    Machine m;
    expect_error(code, part, [&] { load_model(m.ctx, one_process_mesh(), folder.path(), {}); });
  }
};

TEST(Load, WhatTheFilesHoldMustBeWhatTheConfigPromises) {
  {
    Altered a("llama2");
    a.tensors.erase("model.layers.1.mlp.up_proj.weight");
    a.expect_refused(Code::kBadData, "tensor model.layers.1.mlp.up_proj.weight is missing");
  }
  {
    Altered a("llama2");
    a.tensors["model.layers.2.extra.weight"] = Tensor(DType::kF32, {3});
    a.expect_refused(Code::kUnsupported, "tensor model.layers.2.extra.weight has no place");
  }
  {
    Altered a("llama2");
    a.config["intermediate_size"] = 44;
    a.expect_refused(Code::kMismatch, "is [40, 24]; config.json makes it [44, 24]");
  }
  {
    Altered a("gpt2");  // transposed there
    a.tensors["transformer.h.0.mlp.c_fc.weight"] = Tensor(DType::kF32, {96, 24});
    a.expect_refused(Code::kMismatch, "transformer.h.0.mlp.c_fc.weight is [96, 24]; config.json makes it [24, 96]");
  }
  {
    Altered a("gpt2");
    a.tensors["transformer.ln_f.bias"] = Tensor(DType::kI32, {24});
    a.expect_refused(Code::kUnsupported, "transformer.ln_f.bias is i32");
  }
  for (const float bad : {NAN, INFINITY}) {
    Altered a("llama3");
    a.tensors["model.norm.weight"].as<float>()[23] = bad;
    a.expect_refused(Code::kBadData, "tensor model.norm.weight holds NaN or infinity");
  }
}

// A config that promises a hundred gigabytes is found out before any of it is allocated.
TEST(Load, ALyingConfigIsRefusedBeforeMemoryIsTaken) {
  Altered a("llama2");
  a.config["vocab_size"] = int64_t{1} << 30;
  a.expect_refused(Code::kMismatch, "config.json makes it [1073741824, 24]");
}

TEST(Load, AMissingShardIsNamed) {
  Altered a("llama2");
  a.write(6000);
  std::string shard;
  for (const auto& entry : fs::directory_iterator(a.folder.path()))
    if (entry.path().extension() == ".safetensors") shard = entry.path();
  fs::remove(shard);
  Machine m;
  expect_error(Code::kNotFound, fs::path(shard).filename(),
               [&] { load_model(m.ctx, one_process_mesh(), a.folder.path(), {}); });
}

TEST(Load, ForeignHabitsAreUnderstood) {
  Machine m;
  {
    Altered a("gpt2");  // as OpenAI's first files: no prefix, and the causal mask among the weights
    std::map<std::string, Tensor> renamed;
    for (auto& [name, tensor] : a.tensors) renamed[name.substr(std::string("transformer.").size())] = tensor;
    renamed["h.0.attn.bias"] = Tensor(DType::kF32, {1, 1, 4, 4});
    a.tensors = std::move(renamed);
    a.write();
    GoldenModel g("gpt2", choose_isa());
    expect_same_weights(*load_model(m.ctx, one_process_mesh(), a.folder.path(), {}), *g.model);
  }
  {
    Altered a("llama3");  // a tied head that is written all the same
    a.tensors["lm_head.weight"] = a.tensors["model.embed_tokens.weight"];
    a.write();
    GoldenModel g("llama3", choose_isa());
    expect_same_weights(*load_model(m.ctx, one_process_mesh(), a.folder.path(), {}), *g.model);
  }
}

// As transformers: generation_config.json counts, where it says anything; and what is written says the same.
TEST(Load, GenerationSettingsSayWhatEndsAText) {
  TestFolder folder;
  fs::copy(golden_folder("llama3"), folder / "m");  // its own is 2
  const auto ends = [&](const std::string& settings) {
    write_file_atomic(folder / "m/generation_config.json", settings);
    const ArchSpec spec = load_spec(folder / "m");
    std::vector<int64_t> ids;
    if (spec.eos) ids.push_back(*spec.eos);
    ids.insert(ids.end(), spec.more_eos.begin(), spec.more_eos.end());
    return ids;
  };
  using Ids = std::vector<int64_t>;
  EXPECT_EQ(ends(R"({"do_sample": true})"), Ids{2});
  EXPECT_EQ(ends(R"({"eos_token_id": [9, 2]})"), (Ids{9, 2}));
  EXPECT_EQ(ends(R"({"eos_token_id": 7})"), Ids{7});
  EXPECT_EQ(ends(R"({"eos_token_id": null})"), Ids{});
  EXPECT_EQ(ends("[]"), Ids{2});
  expect_error(Code::kBadData, "generation_config.json: \"eos_token_id\" is \"</s>\"",
               [&] { ends(R"({"eos_token_id": "</s>"})"); });

  ends(R"({"eos_token_id": [9, 2]})");
  Machine m;
  save_model(m.ctx, *load_model(m.ctx, one_process_mesh(), folder / "m", {}), folder / "again", {.sync = false});
  EXPECT_EQ(read_json_file(folder / "again/config.json").at("eos_token_id"), Json({9, 2}));
}

/// Of the golden Llama 3 as a .gguf with more metadata.
ArchSpec spec_of_gguf_with(GgufMetadataBuilder& metadata) {
  Machine m;
  TestFolder folder;
  save_gguf(m.ctx, golden_folder("llama3"), folder / "m.gguf", {.sync = false});
  const GgufFile file = GgufFile::open(folder / "m.gguf");
  for (const std::string_view key : file.metadata().keys()) metadata.put(key, *file.metadata().find(key));
  std::vector<PlannedGgufTensor> plan;
  for (const GgufTensor& tensor : file.tensors()) plan.push_back({std::string(tensor.name), tensor.type, tensor.shape});
  GgufWriter writer(folder / "more.gguf", metadata, plan);
  for (const GgufTensor& tensor : file.tensors())
    writer.write_blocks(tensor.name, file.data(tensor).data(), file.data(tensor).size());
  writer.finish(false);
  return load_spec(folder / "more.gguf");
}

TEST(Load, TheEndOfATurnInAGgufEndsAText) {
  GgufMetadataBuilder metadata;
  metadata.put("tokenizer.ggml.eot_token_id", uint32_t{9});
  metadata.put("tokenizer.ggml.eom_token_id", uint32_t{2});  // the model's own eos
  const ArchSpec spec = spec_of_gguf_with(metadata);
  EXPECT_EQ(spec.eos, 2);
  EXPECT_EQ(spec.more_eos, std::vector<int64_t>{9});
}

TEST(Load, ControlTokensOfKnownNamesInAGgufEndATextToo) {
  GgufMetadataBuilder metadata;
  std::vector<std::string> tokens(61, "a");
  std::vector<int32_t> types(61, 1);
  tokens[3] = "<end_of_turn>";
  tokens[4] = "<|endoftext|>";
  tokens[5] = "<|im_end|>";
  types[3] = types[5] = types[6] = 3;  // the fourth is plain text, the sixth has another name
  metadata.put("tokenizer.ggml.tokens", tokens);
  metadata.put("tokenizer.ggml.token_type", types);
  EXPECT_EQ(spec_of_gguf_with(metadata).more_eos, (std::vector<int64_t>{3, 5}));
}

TEST(Load, SeveralEndsOfATextSurviveAGguf) {
  Machine m;
  TestFolder folder;
  fs::copy(golden_folder("llama3"), folder / "m");
  write_file_atomic(folder / "m/generation_config.json", R"({"eos_token_id": [9, 2, 5]})");
  save_gguf(m.ctx, folder / "m", folder / "m.gguf", {.sync = false});
  const ArchSpec spec = load_spec(folder / "m.gguf");
  EXPECT_EQ(spec.eos, 9);
  EXPECT_EQ(spec.more_eos, (std::vector<int64_t>{2, 5}));
}

TEST(Load, PicklesAreRefusedWithTheWayOut) {
  TestFolder folder;
  Altered a("llama2");
  write_file_atomic(folder / "config.json", a.config.dump());
  write_file_atomic(folder / "pytorch_model.bin", "not read");
  Machine m;
  expect_error(Code::kUnsupported, "PyTorch pickle", [&] { load_model(m.ctx, one_process_mesh(), folder.path(), {}); });
}

TEST(Load, WeightsInBf16AreTheRoundedOnes) {
  GoldenModel exact("llama2", choose_isa()), rounded("llama2", choose_isa(), {.dtype = DType::kBF16});
  for (size_t i = 0; i < exact.model->params().size(); ++i) {
    const Param &x = exact.model->params()[i], &y = rounded.model->params()[i];
    if (!y.compute_copy) continue;
    EXPECT_FALSE(y.master) << y.name << " is in memory twice";
    for (int64_t j = 0; j < x.size(); ++j)
      ASSERT_EQ(float(y.compute_copy.as<bf16>()[j]), float(bf16(x.master.as<float>()[j]))) << y.name;
  }
}

}  // namespace
}  // namespace espalier
