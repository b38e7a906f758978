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
  expect_error(Code::kNotFound, "no such file or folder", [&] { find_model_folder("../no-such-folder-here", hub); });
  expect_error(Code::kNotFound, "no config.json", [&] { find_model_folder(folder.path(), hub); });
  std::filesystem::create_directories(folder / "run/checkpoints");
  expect_error(Code::kNotFound, "no model/ yet", [&] { find_model_folder(folder / "run", hub); });
  // A reference that would leave the cache is not followed.
  touch(folder / "secret/config.json");
  touch(hub + "/models--a--b/refs/main", "../../../secret");
  expect_error(Code::kNotFound, "models--a--b", [&] { find_model_folder("a/b", hub); });
}

/// Sets a variable of the environment for a while.
struct Environment {
  std::string name, before;
  Environment(const char* variable, const std::string& value) : name(variable) {
    if (const char* old = std::getenv(variable)) before = old;
    ::setenv(variable, value.c_str(), 1);
  }
  ~Environment() { before.empty() ? ::unsetenv(name.c_str()) : ::setenv(name.c_str(), before.c_str(), 1); }
};

TEST(FindModel, GgufsByFileNameFolderAndId) {
  const TestFolder folder;
  const std::string hub = folder / "hub";
  const Environment cache("ESP_MODELS", folder / "cache");
  touch(folder / "m.gguf");
  touch(folder / "cache/tiny-1b.gguf");
  touch(folder / "one/only.gguf");
  touch(folder / "one/mmproj-f16.gguf");
  for (const char* part : {"1", "2", "3"}) touch(folder / "split/s-0000" + part + "-of-00003.gguf");
  touch(folder / "two/a.gguf");
  touch(folder / "two/b.gguf");
  touch(hub + "/models--org--Name-GGUF/snapshots/abc/name-q8_0.gguf");
  touch(hub + "/models--org--Name-GGUF/snapshots/abc/config.json");
  touch(hub + "/models--org--Name-GGUF/refs/main", "abc");
  EXPECT_EQ(find_model(folder / "m.gguf", hub), folder / "m.gguf");
  EXPECT_EQ(find_model(folder / "m", hub), folder / "m.gguf");
  EXPECT_EQ(find_model("tiny-1b", hub), folder / "cache/tiny-1b.gguf");
  EXPECT_EQ(find_model(folder / "one", hub), folder / "one/only.gguf");
  EXPECT_EQ(find_model(folder / "split/s-00002-of-00003.gguf", hub), folder / "split/s-00002-of-00003.gguf");
  for (const char* name : {"split", "split/s", "split/s.gguf"})
    EXPECT_EQ(find_model(folder / name, hub), folder / "split/s-00001-of-00003.gguf") << name;
  EXPECT_EQ(find_model("org/Name-GGUF", hub), hub + "/models--org--Name-GGUF/snapshots/abc/name-q8_0.gguf");
  expect_error(Code::kUsage, "holds 2 models; name one of them: " + (folder / "two/a.gguf"),
               [&] { find_model(folder / "two", hub); });
  expect_error(Code::kUnsupported, "`espalier convert` makes one", [&] { find_model_folder("tiny-1b", hub); });
  // Weights that lie in the folder itself come first.
  touch(folder / "both/config.json");
  touch(folder / "both/model.safetensors");
  touch(folder / "both/m.gguf");
  EXPECT_EQ(find_model(folder / "both", hub), folder / "both");
}

TEST(FindModel, SaysHowAModelIsFetched) {
  const TestFolder folder;
  const Environment cache("ESP_MODELS", folder / "cache");
  const auto says = [&](const std::string& model, const std::string& part) {
    expect_error(Code::kNotFound, part, [&] { find_model(model, folder / "hub"); });
  };
  says("org/name", "no " + (folder / "cache/org/name.gguf") + ", and no model in the Hugging Face cache at " +
                       (folder / "hub/models--org--name") + "; `hf download org/name` fetches");
  says("smollm2-135m", "`tools/get_model.sh smollm2-135m` fetches it");
  says("smollm2-135", "(did you mean 'smollm2-135m'?)");
  touch(folder / "notes.txt");
  says(folder / "notes.txt", "it is a file and no .gguf");
  // The script knows every name that the message promises.
  const std::string script = read_file(std::string(ESP_SOURCE_DIR) + "/tools/get_model.sh");
  for (const char* name : {"smollm2-135m", "gemma-3-270m", "qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"})
    EXPECT_NE(script.find(std::string("  ") + name + ")"), std::string::npos) << name;
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
