#include "formats/hf_folder.h"

#include "formats/safetensors_writer.h"
#include "formats/test_folder.h"

namespace espalier {
namespace {

void touch(const std::string& path, const std::string& text = "{}") {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  put_file(path, text);
}

TEST(HfFolder, FindsFoldersRunsAndCachedIds) {
  const TestFolder folder;
  const std::string hub = folder / "hub";
  touch(folder / "hf/config.json");
  touch(folder / "run/model/config.json");
  touch(folder / "tokenizer-only/tokenizer.json");
  touch(hub + "/models--org--Name-1.5b/snapshots/old/config.json");
  touch(hub + "/models--org--Name-1.5b/snapshots/abc/config.json");
  touch(hub + "/models--org--Name-1.5b/refs/main", "abc\n");
  touch(hub + "/models--gpt2/snapshots/only/config.json");
  EXPECT_EQ(find_model_folder(folder / "hf", hub), folder / "hf");
  EXPECT_EQ(find_model_folder(folder / "run", hub), folder / "run/model");
  EXPECT_EQ(find_model_folder(folder / "tokenizer-only", hub), folder / "tokenizer-only");
  EXPECT_EQ(find_model_folder("org/Name-1.5b", hub), hub + "/models--org--Name-1.5b/snapshots/abc");
  EXPECT_EQ(find_model_folder("gpt2", hub), hub + "/models--gpt2/snapshots/only");
}

TEST(HfFolder, SaysWhereItLooked) {
  const TestFolder folder;
  const std::string hub = folder / "hub";
  expect_error(Code::kNotFound, hub + "/models--org--name", [&] { find_model_folder("org/name", hub); });
  expect_error(Code::kNotFound, "there is no such folder", [&] { find_model_folder("../no-such-folder-here", hub); });
  expect_error(Code::kNotFound, "no config.json", [&] { find_model_folder(folder.path(), hub); });
  std::filesystem::create_directories(folder / "run/checkpoints");
  expect_error(Code::kNotFound, "no model/ yet", [&] { find_model_folder(folder / "run", hub); });
  // A reference that would leave the cache is not followed.
  touch(folder / "secret/config.json");
  touch(hub + "/models--a--b/refs/main", "../../../secret");
  expect_error(Code::kNotFound, "models--a--b", [&] { find_model_folder("a/b", hub); });
}

TEST(HfFolder, PicklesAreRefusedWithTheCommandThatConvertsThem) {
  const TestFolder folder;
  touch(folder / "config.json");
  expect_error(Code::kNotFound, "neither model.safetensors", [&] { open_weights(folder.path()); });
  touch(folder / "pytorch_model.bin");
  expect_error(Code::kUnsupported, "save_pretrained('" + folder.path(), [&] { open_weights(folder.path()); });
  SafetensorsWriter(folder / "model.safetensors", {}).finish();
  EXPECT_TRUE(open_weights(folder.path()).names().empty());
}

TEST(HfFolder, TheCacheFollowsTheEnvironment) {
  ::unsetenv("HF_HUB_CACHE");
  ::setenv("HF_HOME", "/h", 1);
  EXPECT_EQ(hub_cache_folder(), "/h/hub");
  ::setenv("HF_HUB_CACHE", "/c", 1);
  EXPECT_EQ(hub_cache_folder(), "/c");
  ::unsetenv("HF_HUB_CACHE");
  ::unsetenv("HF_HOME");
  ::setenv("XDG_CACHE_HOME", "/x", 1);
  EXPECT_EQ(hub_cache_folder(), "/x/huggingface/hub");
  ::unsetenv("XDG_CACHE_HOME");
  EXPECT_TRUE(hub_cache_folder().ends_with("/.cache/huggingface/hub"));
}

}  // namespace
}  // namespace espalier
