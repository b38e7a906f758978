#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/json.h"
#include "base/json_value.h"
#include "cli/run_program.h"
#include "models/tiny_model.h"
#include "formats/checkpoint.h"
#include "formats/token_shards.h"
#include "train/train_config.h"

namespace espalier {
namespace {

const std::string kGolden = std::string(ESP_SOURCE_DIR) + "/tests/golden/";

/// The object, after a look at the text that people get.
Json inspect(const std::string& path, const std::vector<std::string>& flags = {}) {
  std::vector<std::string> args = {"inspect", path};
  args.insert(args.end(), flags.begin(), flags.end());
  const ProgramResult text = run_program(args);
  EXPECT_EQ(text.status, 0) << text.err;
  args.push_back("--json");
  const ProgramResult json = run_program(args);
  EXPECT_EQ(json.status, 0) << json.err;
  if (json.status != 0) return Json::object();
  const Json object = Json::parse(json.out);
  EXPECT_NE(text.out.find(object.at("kind").get<std::string>()), std::string::npos) << text.out;
  return object;
}

TEST(Inspect, AModelFolderTellsArchitectureTensorsAndTokenizer) {
  const TinyModel model;
  const Json object = inspect(model.path(), {"--verify"});
  EXPECT_EQ(object.at("kind"), "model");
  EXPECT_EQ(object.at("family"), "llama");
  EXPECT_EQ(object.at("parameters"), parameter_count(model.model.spec()));
  EXPECT_EQ(object.at("elements"), object.at("parameters"));
  EXPECT_EQ(object.at("weight_bytes"), 4 * object.at("parameters").get<int64_t>());
  EXPECT_EQ(object.at("dtypes").at("f32"), object.at("parameters"));
  EXPECT_EQ(object.at("tokenizer").at("vocab_size"), 700);
  EXPECT_EQ(object.at("tensors").size(), 21u);
  EXPECT_EQ(object.at("tensors")[0].at("shape"), (Json{700, 32}));
  EXPECT_EQ(object.at("verified"), true);
}

TEST(Inspect, FilesOfAModelAlone) {
  const TinyModel model("gpt2", 1, {.max_shard_bytes = 50'000});
  EXPECT_EQ(inspect(model.path() + "/tokenizer.json").at("kind"), "tokenizer");
  EXPECT_EQ(inspect(model.path() + "/config.json").at("parameters"), parameter_count(model.model.spec()));
  const Json index = inspect(model.path() + "/model.safetensors.index.json");
  EXPECT_EQ(index.at("kind"), "safetensors");
  EXPECT_GT(index.at("weight_files"), 1);
  EXPECT_EQ(index.at("elements"), parameter_count(model.model.spec()));
  const Json file = inspect(kGolden + "models/gpt2/golden.safetensors");
  EXPECT_EQ(file.at("metadata").at("script"), "tools/make_model_golden.py");
  EXPECT_EQ(file.at("dtypes").at("i32"), 48);
}

TEST(Inspect, AModelThatWeCannotRunIsStillLookedAt) {
  const TinyModel model;
  Json config = read_json_file(model.path() + "/config.json");
  config["model_type"] = "rwkv";
  write_file_atomic(model.path() + "/config.json", config.dump());
  const Json object = inspect(model.path());
  EXPECT_NE(object.at("cannot_run").get<std::string>().find("'rwkv'"), std::string::npos);
  EXPECT_EQ(object.at("tensors").size(), 21u);
}

TEST(Inspect, TokenShardsAreDecodedWhereTheirTokenizerLiesBeside) {
  TestFolder folder;
  const Tokenizer tokenizer = Tokenizer::load(kGolden + "tokenizer/gpt2.json");
  tokenizer.save(folder.path());
  for (const char* name : {"a.tokens", "b.tokens"}) {
    TokenShardWriter writer(folder / name, {.vocab_size = 700, .vocab_hash = tokenizer.vocab_hash()});
    writer.append(tokenizer.encode("Hello, world"));
    writer.append(tokenizer.encode("Another document"));
    writer.finish();
  }
  const Json shard = inspect(folder / "a.tokens", {"--verify"});
  EXPECT_EQ(shard.at("kind"), "token shard");
  EXPECT_EQ(shard.at("format"), "own");
  EXPECT_EQ(shard.at("documents"), 2);
  EXPECT_EQ(shard.at("first_text"), "Hello, worldAnother document");
  EXPECT_EQ(shard.at("verified"), true);

  EXPECT_EQ(inspect(folder.path()).at("first_text"), shard.at("first_text")) << "as `espalier prepare` leaves it";
  std::filesystem::create_directory(folder / "shards");
  for (const char* name : {"a.tokens", "b.tokens"}) std::filesystem::rename(folder / name, folder / "shards/" + name);
  const Json all = inspect(folder / "shards");
  EXPECT_EQ(all.at("kind"), "token shards");
  EXPECT_EQ(all.at("tokens"), 2 * shard.at("tokens").get<int64_t>());
  EXPECT_EQ(all.at("shards").size(), 2u);
  EXPECT_FALSE(all.contains("first_text")) << "no tokenizer lies there";

  const int16_t ids[] = {1, 2, 3};
  write_file_atomic(folder / "raw.bin", {reinterpret_cast<const char*>(ids), sizeof ids});
  EXPECT_EQ(inspect(folder / "raw.bin").at("format"), "nanogpt");
}

TEST(Inspect, ARunItsCheckpointsAndItsRecipe) {
  TestFolder folder;
  TrainConfig config;
  config.run.max_steps = 77;
  write_file_atomic(folder / "config.toml", config_to_toml(ESP_CONFIG(config)));
  write_file_atomic(folder / "metrics.jsonl", "{\"step\":1,\"loss\":5}\n{\"step\":2,\"loss\":4.5}\n");
  const float weights[] = {1, 2, 3};
  const CheckpointTensor tensor = {"w", DType::kF32, {3}, weights};
  write_checkpoint(folder / "checkpoints", 20, {&tensor, 1}, {{"cursor", 12}});

  const Json run = inspect(folder.path());
  EXPECT_EQ(run.at("kind"), "run");
  EXPECT_EQ(run.at("checkpoints"), Json{20});
  EXPECT_EQ(run.at("metric_lines"), 2);
  EXPECT_EQ(run.at("last_metrics").at("loss"), 4.5);
  EXPECT_EQ(run.at("config").at("run.max_steps"), "77");
  EXPECT_EQ(run.at("config").size(), 1u) << "only what differs from the defaults";

  const Json checkpoint = inspect(folder / "checkpoints/step-20");
  EXPECT_EQ(checkpoint.at("kind"), "checkpoint");
  EXPECT_EQ(checkpoint.at("step"), 20);
  EXPECT_EQ(checkpoint.at("state").at("cursor"), 12);
  EXPECT_EQ(checkpoint.at("tensors")[0].at("name"), "w");
  EXPECT_EQ(inspect(folder / "config.toml").at("kind"), "recipe");
}

TEST(Inspect, WhatWeDoNotReadIsAnErrorThatNamesWhatWeDo) {
  TestFolder folder;
  write_file_atomic(folder / "picture.png", "\x89PNG");
  const ProgramResult unknown = run_program({"inspect", folder / "picture.png"});
  EXPECT_EQ(unknown.status, code_info(Code::kUnsupported).exit_status);
  EXPECT_NE(unknown.err.find("tokenizer.json"), std::string::npos) << unknown.err;
  EXPECT_EQ(run_program({"inspect", folder / "nothing"}).status, code_info(Code::kNotFound).exit_status);
  ASSERT_EQ(::mkfifo((folder / "pipe.gguf").c_str(), 0600), 0);
  EXPECT_EQ(run_program({"inspect", folder / "pipe.gguf"}).status, code_info(Code::kUnsupported).exit_status);
  write_file_atomic(folder / "cut.safetensors", "\x10");
  EXPECT_EQ(run_program({"inspect", folder / "cut.safetensors"}).status, code_info(Code::kBadData).exit_status);
}

}  // namespace
}  // namespace espalier
