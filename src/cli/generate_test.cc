#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json.h"
#include "base/json_value.h"
#include "cli/run_program.h"
#include "models/tiny_adapter.h"
#include "models/tiny_model.h"
#include "text/utf8.h"

namespace espalier {
namespace {

ProgramResult generate(const TinyModel& model, std::vector<std::string> flags, const std::string& input = "") {
  flags.insert(flags.begin(), {"generate", model.path(), "--max-tokens", "20", "--ignore-eos"});
  const ProgramResult r = run_program(flags, input);
  EXPECT_EQ(r.status, 0) << r.err;
  return r;
}

TEST(Generate, TextGoesToStdoutAndFiguresToStderr) {
  const TinyModel model;
  const ProgramResult r = generate(model, {"--prompt", "Hello"});
  EXPECT_FALSE(r.out.empty());
  EXPECT_TRUE(is_utf8(r.out));
  EXPECT_NE(r.err.find("20 generated at"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("ended by length"), std::string::npos) << r.err;
  EXPECT_EQ(generate(model, {"--prompt", "Hello"}).out, r.out) << "the same seed replays";
  EXPECT_NE(generate(model, {"--prompt", "Hello", "--seed", "2"}).out, r.out);
  EXPECT_EQ(generate(model, {"--prompt", "Hello", "--threads", "1"}).out, r.out);
  EXPECT_EQ(generate(model, {}, "Hello").out, r.out) << "the prompt from standard input";
  EXPECT_EQ(generate(model, {"--prompt", "Hello", "--echo"}).out, "Hello" + r.out);
}

TEST(Generate, AnAdapterChangesTheText) {
  const TinyModel model;
  const std::string folder = model.folder / "adapter";
  write_tiny_adapter(folder);
  const std::string plain = generate(model, {"--prompt", "Hello", "--temperature", "0"}).out;
  EXPECT_NE(generate(model, {"--prompt", "Hello", "--temperature", "0", "--lora", folder}).out, plain);
  EXPECT_EQ(generate(model, {"--prompt", "Hello", "--temperature", "0", "--lora", folder + "=0"}).out, plain);
  const ProgramResult none = run_program({"generate", model.path(), "--prompt", "x", "--lora", folder + "/none"}, "");
  EXPECT_NE(none.status, 0);
  EXPECT_NE(none.err.find("there is no such file"), std::string::npos) << none.err;
}

TEST(Generate, JsonIsOneObjectASample) {
  const TinyModel model;
  const ProgramResult r = generate(model, {"--prompt", "Hello", "--samples", "3", "--json"});
  std::istringstream lines(r.out);
  std::set<std::string> texts;
  for (std::string line; std::getline(lines, line);) {
    const Json object = Json::parse(line);
    EXPECT_EQ(object.at("prompt"), "Hello");
    EXPECT_EQ(object.at("ids").size(), 20u);
    EXPECT_EQ(object.at("finish_reason"), "length");
    texts.insert(object.at("text").get<std::string>());
  }
  EXPECT_EQ(texts.size(), 3u) << "samples differ";
  const Json alone = Json::parse(generate(model, {"--prompt", "Hello", "--json"}).out);
  EXPECT_TRUE(texts.contains(alone.at("text"))) << "the first sample is what one request alone gives";
}

TEST(Generate, ASettingThatMakesNoSenseIsRefused) {
  const TinyModel model;
  const auto fails = [&](std::vector<std::string> flags, Code code, const std::string& part) {
    flags.insert(flags.begin(), {"generate", model.path()});
    const ProgramResult r = run_program(flags, "x");
    EXPECT_EQ(r.status, code_info(code).exit_status) << r.err;
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
  };
  fails({"--prompt", "a", "--prompt-file", "b"}, Code::kUsage, "both given");
  fails({"--prompt-file", "/nowhere"}, Code::kNotFound, "/nowhere");
  fails({"--temprature", "1"}, Code::kUsage, "did you mean '--temperature'");
  fails({"--max-tokens", "0"}, Code::kUsage, "max");
  std::string long_prompt;
  for (int i = 0; i < 200; ++i) long_prompt += "x ";
  fails({"--prompt", long_prompt}, Code::kUsage, "context is 128");
  EXPECT_EQ(run_program({"generate", "/nowhere", "--prompt", "a"}).status, code_info(Code::kNotFound).exit_status);
}

TEST(Eval, PerplexityOfATextAndOfShards) {
  const TinyModel model("llama3");
  TestFolder folder;
  std::string text;
  for (int i = 0; i < 60; ++i) text += "Some text that repeats itself, number " + std::to_string(i) + ".\n";
  write_file_atomic(folder / "text", text);
  const std::vector<std::string> base = {"eval", "perplexity", model.path(), "--context", "32"};
  const auto run = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), base.begin(), base.end());
    const ProgramResult r = run_program(flags);
    EXPECT_EQ(r.status, 0) << r.err;
    return r.out;
  };
  const Json result = Json::parse(run({"--text", folder / "text", "--json"}));
  EXPECT_EQ(result.at("tokens_scored"), result.at("chunks").get<int64_t>() * 15);
  EXPECT_NEAR(result.at("ppl"), std::exp(result.at("nll").get<double>()), 1e-9 * result.at("ppl").get<double>());

  std::istringstream lines(run({"--text", folder / "text", "--per-token"}));
  double sum = 0;
  int64_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) sum += Json::parse(line).at("nll").get<double>();
  EXPECT_EQ(count, result.at("tokens_scored"));
  // Both are sums of the same f32 scores, which JSON writes exactly.
  EXPECT_NEAR(sum / double(count), result.at("nll").get<double>(), 1e-12 * sum);
  EXPECT_NE(run({"--text", folder / "text"}).find("perplexity "), std::string::npos);
  EXPECT_EQ(Json::parse(run({"--text", folder / "text", "--max-chunks", "2", "--json"})).at("chunks"), 2);

  // The same ids as nanoGPT's raw 16-bit shard, whose chunks start with no BOS but the text's own.
  const std::string encoded = run_program({"tokenize", model.path()}, Json(text).dump()).out;
  std::vector<uint16_t> ids = Json::parse(encoded).get<std::vector<uint16_t>>();
  write_file_atomic(folder / "ids.bin", {reinterpret_cast<const char*>(ids.data()), ids.size() * 2});
  const Json shards = Json::parse(run({"--tokens", folder / "ids.bin", "--json"}));
  EXPECT_EQ(shards.at("chunks"), int64_t(ids.size()) / 32);
}

TEST(Eval, SaysWhatIsMissing) {
  const TinyModel model;
  const ProgramResult none = run_program({"eval", "perplexity", model.path()});
  EXPECT_EQ(none.status, code_info(Code::kUsage).exit_status);
  EXPECT_NE(none.err.find("--text FILE or --tokens SHARDS"), std::string::npos) << none.err;
  const ProgramResult typo = run_program({"eval", "perplexty", model.path()});
  EXPECT_NE(typo.err.find("did you mean 'perplexity'"), std::string::npos) << typo.err;
}

}  // namespace
}  // namespace espalier
