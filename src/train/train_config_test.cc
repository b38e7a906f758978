#include "train/train_config.h"

#include "formats/test_folder.h"

namespace espalier {
namespace {

TEST(TrainConfig, ReadsARecipeAndWritesItBackWhole) {
  TrainConfig config;
  config_from_toml("[model]\nlayers = 4\n[optim]\nkind = \"muon\"\nlr = 0.02\n[data]\ntrain = \"data/train\"\n",
                   "recipe", ESP_CONFIG(config));
  EXPECT_EQ(config.model.layers, 4);
  EXPECT_EQ(config.optim.kind, "muon");
  TrainConfig again;
  config_from_toml(config_to_toml(ESP_CONFIG(config)), "config.toml", ESP_CONFIG(again));
  const std::string_view everything[] = {"run", "model", "data", "optim", "compute"}, some[] = {"model", "optim.kind"};
  EXPECT_TRUE(differences(config, again, everything).empty());
  again.optim.lr = 0.01;
  again.model.layers = 5;
  EXPECT_EQ(differences(again, config, some), std::vector<std::string>{"model.layers is 5, was 4"});
}

TEST(TrainConfig, RefusesWhatNoRunCanDo) {
  TrainConfig config;
  expect_error(Code::kUsage, "data.train is empty", [&] { check_config(config); });
  config.data.train = "data";
  config.run.max_steps = 0;
  expect_error(Code::kUsage, "must end the run", [&] { check_config(config); });
  config.run.max_minutes = 1;
  check_config(config);
  expect_error(Code::kUsage, "lr", [&] { config_set("optim.lr", "-1", "--optim.lr", ESP_CONFIG(config)); });
}

TEST(TrainConfig, FillsTheFamiliesArchitectures) {
  ModelConfig gpt2;  // the defaults are GPT-2 124M's
  EXPECT_EQ(parameter_count(arch_of(gpt2, 50257, 1024)), 124439808);
  ModelConfig llama;
  llama.family = "llama";
  llama.heads = 12;
  llama.kv_heads = 4;
  const ArchSpec spec = arch_of(llama, 1000, 64);
  EXPECT_EQ(spec.ffn, 2048);
  EXPECT_EQ(spec.kv_heads, 4);
  EXPECT_TRUE(spec.rms_norm && spec.gated_ffn && !spec.norm_bias && spec.rope_theta > 0);
  gpt2.kv_heads = 4;
  expect_error(Code::kUsage, "gpt2 has as many", [&] { arch_of(gpt2, 100, 64); });
  llama.heads = 7;
  expect_error(Code::kUsage, "cannot share", [&] { arch_of(llama, 100, 64); });
}

}  // namespace
}  // namespace espalier
