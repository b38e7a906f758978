#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json.h"
#include "base/json_value.h"
#include "cli/run_program.h"

namespace espalier {
namespace {

const std::string kGolden = std::string(ESP_SOURCE_DIR) + "/tests/golden/tokenizer/";

TEST(Tokenize, StringsInArraysOutAndBack) {
  const std::vector<std::string> texts = {"Hello, world", "", "naïve 日本語 🙂\n\t\"quoted\"\\", "<|endoftext|>x"};
  std::string input;
  for (const std::string& text : texts) input += Json(text).dump() + "\n";
  const ProgramResult encoded = run_program({"tokenize", kGolden + "gpt2.json"}, input);
  EXPECT_EQ(encoded.status, 0) << encoded.err;
  EXPECT_EQ(std::count(encoded.out.begin(), encoded.out.end(), '\n'), 4);
  const ProgramResult decoded = run_program({"tokenize", kGolden + "gpt2.json", "--decode"}, encoded.out);
  EXPECT_EQ(decoded.status, 0) << decoded.err;
  std::istringstream lines(decoded.out);
  for (const std::string& text : texts) {
    std::string line;
    ASSERT_TRUE(std::getline(lines, line));
    EXPECT_EQ(Json::parse(line), Json(text));
  }
}

TEST(Tokenize, JsonTellsTokensAndTheBytesTheyCover) {
  const ProgramResult r = run_program({"tokenize", kGolden + "gpt2.json", "--json"}, "\"H\\u00e9 \\ud83d\\ude42\"");
  ASSERT_EQ(r.status, 0) << r.err;
  const Json json = Json::parse(r.out);
  const std::string text = "Hé 🙂";
  ASSERT_EQ(json.at("ids").size(), json.at("tokens").size());
  ASSERT_EQ(json.at("ids").size(), json.at("offsets").size());
  size_t end = 0;
  for (const Json& offset : json.at("offsets")) {
    EXPECT_EQ(offset[0], end);
    end = offset[1];
  }
  EXPECT_EQ(end, text.size());
}

TEST(Tokenize, SpecialTokensOnlyWhenAsked) {
  const std::string llama = kGolden + "llama3.json";
  const Json plain = Json::parse(run_program({"tokenize", llama}, "\"hi\"").out);
  const Json special = Json::parse(run_program({"tokenize", llama, "--add-special"}, "\"hi\"").out);
  ASSERT_EQ(special.size(), plain.size() + 1);
  EXPECT_EQ(special[0], 0);
  const std::string ids = special.dump();
  EXPECT_EQ(run_program({"tokenize", llama, "--decode", "--skip-special"}, ids).out, "\"hi\"\n");
  EXPECT_EQ(run_program({"tokenize", llama, "--decode"}, ids).out, "\"<|begin_of_text|>hi\"\n");
}

TEST(Tokenize, ABadLineIsNamed) {
  const int bad_data = code_info(Code::kBadData).exit_status;
  const auto fails = [&](const std::vector<std::string>& flags, const std::string& input, const std::string& part) {
    std::vector<std::string> args = {"tokenize", kGolden + "gpt2.json"};
    args.insert(args.end(), flags.begin(), flags.end());
    const ProgramResult r = run_program(args, input);
    EXPECT_EQ(r.status, bad_data) << input;
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
  };
  fails({}, "\"a\"\n\"b\"\n[1]\n", "line 3 of standard input: found array; expected a JSON string");
  fails({}, "\"a\"\n\n", "line 2 of standard input");
  fails({}, "\"a\"\nplain text\n", "line 2 of standard input");
  fails({}, "\"\xff\"\n", "line 1 of standard input");
  fails({"--decode"}, "[1]\n[700]\n", "line 2 of standard input: 700 is no token id");
  fails({"--decode"}, "[-1]\n", "-1 is no token id");
  fails({"--decode"}, "[1.5]\n", "1.5 is no token id");
  fails({"--decode"}, "\"text\"\n", "expected a JSON array");
}

}  // namespace
}  // namespace espalier
