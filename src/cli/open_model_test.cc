// Every verb that takes a model finds it in the same places.
#include "cli/open_model.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "cli/run_program.h"
#include "models/tiny_model.h"
#include "formats/token_shards.h"

namespace espalier {
namespace {

struct Variable {
  const char* name;
  Variable(const char* variable, const std::string& value) : name(variable) { ::setenv(name, value.c_str(), 1); }
  ~Variable() { ::unsetenv(name); }
};

struct Verbs {
  TestFolder folder;
  Verbs() {
    put_file(folder / "text", "Some text to score, some text to score, some text to score.");
    TokenShardWriter shard(folder / "a.tokens", {.dtype = token_dtype(700), .vocab_size = 700});
    shard.append(std::vector<int32_t>(500, 5));
    shard.finish();
  }
  std::vector<std::vector<std::string>> of(const std::string& model) const {
    return {{"generate", model, "--prompt", "a", "--max-tokens", "2"},
            {"eval", "perplexity", model, "--text", folder / "text", "--context", "16"},
            {"inspect", model},
            {"tokenize", model},
            {"convert", model, folder / "converted"},
            {"train", "--init", model, "--data.train", folder / "a.tokens", "--context", "16", "--dry-run",
             "--run.out", folder / "run"}};
  }
};

TEST(FindModel, EveryVerbLooksInTheCaches) {
  const TinyModel model;
  const Verbs verbs;
  const std::string hub = verbs.folder / "hub", repository = hub + "/models--org--Tiny-1m";
  std::filesystem::create_directories(repository + "/refs");
  std::filesystem::create_directories(repository + "/snapshots");
  put_file(repository + "/refs/main", "0123abc");
  std::filesystem::copy(model.path(), repository + "/snapshots/0123abc", std::filesystem::copy_options::recursive);
  const Variable cache("HF_HUB_CACHE", hub), models("ESP_MODELS", verbs.folder / "models");
  std::filesystem::create_directories(verbs.folder / "models");
  ASSERT_EQ(run_program({"convert", model.path(), verbs.folder / "models/tiny.gguf"}).status, 0);
  for (const char* id : {"org/Tiny-1m", "tiny"})
    for (const std::vector<std::string>& args : verbs.of(id)) {
      const ProgramResult r = run_program(args, "\"ab\"\n");
      EXPECT_EQ(r.status, 0) << args[0] << " " << id << ": " << r.err;
    }
  for (const std::vector<std::string>& args : verbs.of("org/Absent")) {
    const ProgramResult r = run_program(args);
    EXPECT_EQ(r.status, code_info(Code::kNotFound).exit_status) << args[0];
    for (const std::string& part : {hub + "/models--org--Absent", verbs.folder / "models", std::string("hf download")})
      EXPECT_NE(r.err.find(part), std::string::npos) << args[0] << ": " << r.err;
  }
}

TEST(FindModel, EveryVerbRefusesPicklesWithTheWayOut) {
  const TinyModel model;
  const Verbs verbs;
  std::filesystem::remove(model.path() + "/model.safetensors");
  put_file(model.path() + "/pytorch_model.bin", "never read");
  for (const std::string& path : {model.path(), model.path() + "/pytorch_model.bin"})
    for (const std::vector<std::string>& args : verbs.of(path)) {
      if (path == model.path() && (args[0] == "tokenize" || args.back() == verbs.folder / "run")) continue;
      const ProgramResult r = run_program(args, "\"ab\"\n");
      const bool looks = args[0] == "inspect" && path == model.path();  // it shows what else is there
      EXPECT_EQ(r.status, looks ? 0 : code_info(Code::kUnsupported).exit_status) << args[0] << " " << path << r.err;
      EXPECT_NE((r.err + r.out).find("safe_serialization"), std::string::npos) << args[0] << ": " << r.err << r.out;
    }
}

}  // namespace
}  // namespace espalier
