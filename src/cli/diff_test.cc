#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json.h"
#include "base/json_value.h"
#include "cli/run_program.h"
#include "models/tiny_model.h"

namespace espalier {
namespace {

TEST(DiffVerb, ExitStatusAndTableTellWhetherModelsDiffer) {
  const TinyModel a("gpt2", 1), again("gpt2", 1), b("gpt2", 2);
  const ProgramResult same = run_program({"diff", a.path(), again.path()});
  EXPECT_EQ(same.status, 0);
  EXPECT_NE(same.out.find("all 21 tensors are the same"), std::string::npos) << same.out;

  const ProgramResult other = run_program({"diff", a.path(), b.path(), "--top", "3"});
  EXPECT_EQ(other.status, 1);
  EXPECT_NE(other.out.find("16 of 21 tensors differ"), std::string::npos) << other.out;  // the norms start as ones
  EXPECT_NE(other.out.find("... and 13 more"), std::string::npos) << other.out;

  const ProgramResult json = run_program({"diff", a.path(), again.path(), b.path(), "--json"});
  EXPECT_EQ(json.status, 1);
  std::istringstream lines(json.out);
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(Json::parse(line).at("identical"), true);
  ASSERT_TRUE(std::getline(lines, line));
  const Json object = Json::parse(line);
  EXPECT_EQ(object.at("identical"), false);
  EXPECT_EQ(object.at("same"), 5);
  EXPECT_EQ(object.at("tensors").size(), 21u);
  // Independent draws of one size: |b - a| is the root of two times |a|, within the spread of the smallest matrix.
  EXPECT_NEAR(object.at("relative_l2").get<double>(), std::sqrt(2.0), 0.1);
  EXPECT_EQ(run_program({"diff", a.path()}).status, code_info(Code::kUsage).exit_status);
}

TEST(Convert, KeepsTheModelAndItsTokenizer) {
  const TinyModel model;
  const std::string there = model.folder / "there", back = model.folder / "back";
  ASSERT_EQ(run_program({"convert", model.path(), there, "--max-shard-mb", "0.01"}).status, 0);
  EXPECT_TRUE(std::filesystem::exists(there + "/model.safetensors.index.json"));
  ASSERT_EQ(run_program({"convert", there, back}).status, 0);
  EXPECT_EQ(run_program({"diff", model.path(), there, back}).status, 0);
  for (const char* name : {"/config.json", "/model.safetensors", "/tokenizer.json"})
    EXPECT_EQ(read_file(back + name), read_file(model.path() + name)) << name;

  ASSERT_EQ(run_program({"convert", model.path(), there, "--dtype", "bf16"}).status, 0);
  const ProgramResult rounded = run_program({"diff", model.path(), there, "--json"});
  EXPECT_EQ(rounded.status, 1);
  // bf16 keeps 8 bits: a rounding errs by at most 2^-9 of a number, 2^-9 / sqrt(3) on average.
  EXPECT_LT(Json::parse(rounded.out).at("relative_l2").get<double>(), 0x1p-9);
  const ProgramResult itself = run_program({"convert", model.path(), model.path() + "/"});
  EXPECT_EQ(itself.status, code_info(Code::kUsage).exit_status) << itself.err;
  std::filesystem::create_directories(model.folder / "home");
  write_file_atomic(model.folder / "home/letter.txt", "dear");
  const ProgramResult home = run_program({"convert", model.path(), model.folder / "home"});
  EXPECT_EQ(home.status, code_info(Code::kUsage).exit_status) << home.err;
}

}  // namespace
}  // namespace espalier
