#include <filesystem>

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/json.h"
#include "base/json_value.h"
#include "cli/run_program.h"
#include "models/tiny_model.h"
#include "models/load.h"

namespace espalier {
namespace {

ProgramResult ok(const std::vector<std::string>& args, const std::string& input = "") {
  const ProgramResult result = run_program(args, input);
  EXPECT_EQ(result.status, 0) << result.err;
  return result;
}

// A folder as .gguf and back is the same model, to the byte of its weights, and talks alike on the way.
TEST(Convert, AModelGoesIntoAGgufAndBack) {
  const TinyModel model;
  const std::string file = model.path() + "/m.gguf", back = model.path() + "/back";
  write_file_atomic(model.path() + "/chat_template.jinja", "{{ bos_token }}");
  ok({"convert", model.path(), file});
  ok({"convert", file, back});
  EXPECT_EQ(read_file(back + "/model.safetensors"), read_file(model.path() + "/model.safetensors"));
  EXPECT_EQ(read_file(back + "/chat_template.jinja"), "{{ bos_token }}");
  Json before = read_json_file(model.path() + "/config.json"), after = read_json_file(back + "/config.json");
  for (const char* key : {"bos_token_id", "eos_token_id"}) after.erase(key);  // which the tokenizer has told
  EXPECT_EQ(before, after);
  std::vector<Json> answers;
  for (const std::string& path : {model.path(), file, back})
    answers.push_back(Json::parse(ok({"generate", path, "--prompt", "ab 12", "--max-tokens", "8", "--temperature", "0",
                                      "--ignore-eos", "--json"}).out).at("ids"));
  EXPECT_EQ(answers[0], answers[1]);
  EXPECT_EQ(answers[0], answers[2]);
}

TEST(Convert, AVocabularyGrows) {
  const TinyModel model;
  const std::string file = model.path() + "/m.gguf";
  ok({"convert", model.path(), file});
  for (const std::string& from : {model.path(), file}) {
    const std::string to = from + ".grown";
    ok({"convert", from, to, "--new-tokens", R"(["<act>", "</act>"])", "--vocab-multiple", "64"});
    EXPECT_EQ(read_json_file(to + "/config.json").at("vocab_size"), 704);
    EXPECT_EQ(Json::parse(ok({"tokenize", to}, R"("<act>ab</act>")").out).front(), 700);
    EXPECT_EQ(Json::parse(ok({"inspect", to, "--json"}).out).at("tokenizer").at("vocab_size"), 702);
    ok({"generate", to, "--prompt", "<act>", "--max-tokens", "3"});
    ok({"convert", to, to + ".gguf"});
    EXPECT_EQ(Json::parse(ok({"tokenize", to + ".gguf"}, R"("</act>")").out), Json({701}));
    const ProgramResult again = run_program({"convert", to, model.path() + "/again", "--new-tokens", "<act>"});
    EXPECT_EQ(again.status, 2);
    EXPECT_NE(again.err.find("'<act>' is token 700 of this tokenizer already"), std::string::npos) << again.err;
  }
  const ProgramResult refused = run_program({"convert", model.path(), file, "--new-tokens", "<x>"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.err.find("on the way to a folder"), std::string::npos) << refused.err;
}

TEST(Convert, QuantisesIntoGgufOnly) {
  const TinyModel model;
  ok({"convert", model.path(), model.path() + "/q.gguf", "--dtype", "q8_0"});
  const Json object = Json::parse(ok({"inspect", model.path() + "/q.gguf", "--json"}).out);
  EXPECT_GT(object.at("types").at("Q8_0"), 0);
  const ProgramResult refused = run_program({"convert", model.path(), model.path() + "/out", "--dtype", "q8_0"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.err.find(".gguf"), std::string::npos) << refused.err;
}

TEST(Convert, QuantisesToWhatUsersCallIt) {
  const TinyModel model;
  const std::string file = model.path() + "/q.gguf";
  const ProgramResult wrote = ok({"convert", model.path(), file, "--dtype", "q4_k_m", "--head-dtype", "q4_0"});
  EXPECT_NE((wrote.out + wrote.err).find("of Q4_K ("), std::string::npos) << wrote.out << wrote.err;
  EXPECT_NE((wrote.out + wrote.err).find("as Q5_0"), std::string::npos);
  const Json object = Json::parse(ok({"inspect", file, "--verify", "--json"}).out);
  EXPECT_EQ(object.at("metadata").at("general.file_type"), 15);
  EXPECT_GT(object.at("types").at("Q5_0"), 0);
  EXPECT_GT(object.at("types").at("Q4_0"), 0);
  EXPECT_EQ(object.at("verified"), true);
  ok({"generate", file, "--prompt", "ab", "--max-tokens", "3"});
  const ProgramResult twice = run_program({"convert", file, model.path() + "/r.gguf", "--dtype", "q2_k"});
  EXPECT_EQ(twice.status, 2);
  EXPECT_NE(twice.err.find("--requantize"), std::string::npos) << twice.err;
  ok({"convert", file, model.path() + "/r.gguf", "--dtype", "q2_k", "--requantize"});
  const ProgramResult folder = run_program({"convert", model.path(), model.path() + "/out", "--head-dtype", "q8_0"});
  EXPECT_EQ(folder.status, 2);
  EXPECT_NE(folder.err.find("--head-dtype is for .gguf"), std::string::npos) << folder.err;
}

TEST(Inspect, AGgufTellsAllThatAFolderTells) {
  const TinyModel model;
  const std::string file = model.path() + "/m.gguf";
  ok({"convert", model.path(), file});
  const std::string text = ok({"inspect", file}).out;
  EXPECT_NE(text.find("blk.0.attn_q.weight"), std::string::npos) << text;
  const Json object = Json::parse(ok({"inspect", file, "--verify", "--json"}).out);
  EXPECT_EQ(object.at("kind"), "gguf");
  EXPECT_EQ(object.at("family"), "llama");
  EXPECT_EQ(object.at("parameters"), parameter_count(model.model.spec()));
  EXPECT_EQ(object.at("elements"), object.at("parameters"));
  EXPECT_EQ(object.at("types").at("F32"), object.at("parameters"));
  EXPECT_EQ(object.at("tokenizer").at("kind"), "gpt2");
  EXPECT_EQ(object.at("tokenizer").at("vocab_size"), 700);
  EXPECT_EQ(object.at("metadata").at("general.architecture"), "llama");
  EXPECT_EQ(object.at("metadata").at("tokenizer.ggml.tokens"), "700 of type string");
  EXPECT_EQ(object.at("tensors").size(), 21u);
  EXPECT_EQ(object.at("verified"), true);
  std::filesystem::create_directories(model.path() + "/alone");
  std::filesystem::rename(file, model.path() + "/alone/m.gguf");  // a folder of one is that one
  EXPECT_EQ(Json::parse(ok({"inspect", model.path() + "/alone", "--json"}).out).at("kind"), "gguf");
}

}  // namespace
}  // namespace espalier
