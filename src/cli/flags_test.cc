#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "cli/terminal.h"
#include "cli/verb.h"

namespace espalier {
namespace {

struct Optim {
  double lr = 1e-3;
  void visit(Fields& f) { f.field("lr", lr, "learning rate", 0, 10); }
};

struct Options {
  std::string model;
  std::vector<std::string> files, stop;
  int64_t max_tokens = 16;
  bool json = false;
  Optim optim;
  void visit(Fields& f) {
    f.field("model", model, "a model");
    f.field("files", files, "inputs");
    f.field("stop", stop, "strings to stop at");
    f.field("max_tokens", max_tokens, "how many", 0);
    f.field("json", json, "as JSON");
    f.section("optim", optim, "Optimizer");
  }
};

Verb verb_with(const char* positional) { return {"try", "Test", "tries", positional, "espalier try", nullptr}; }

Options read(const char* positional, std::vector<std::string> args) {
  Terminal terminal;
  Options options;
  const Verb verb = verb_with(positional);
  EXPECT_TRUE(read_args(terminal, verb, args, ESP_CONFIG(options)));
  return options;
}

std::string error_of(const char* positional, const std::vector<std::string>& args) {
  try {
    read(positional, args);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kUsage);
    return e.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text << "\nlacks " << part;
}

TEST(Flags, AllWaysOfWritingThem) {
  const Options o = read("model [files...]", {"m", "--max-tokens", "5", "a", "--optim.lr=0.5", "--json", "b"});
  EXPECT_EQ(o.model, "m");
  EXPECT_EQ(o.files, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(o.max_tokens, 5);
  EXPECT_EQ(o.optim.lr, 0.5);
  EXPECT_TRUE(o.json);
  EXPECT_EQ(read("model", {"--max_tokens=7", "m", "--json=false"}).max_tokens, 7);
  EXPECT_EQ(read("model", {"--model=m"}).model, "m") << "a positional value may have its name";
}

TEST(Flags, ValuesThatLookLikeFlags) {
  EXPECT_EQ(read("model", {"--", "--m"}).model, "--m");
  EXPECT_EQ(read("model", {"--model=--m"}).model, "--m");
  EXPECT_EQ(read("model", {"-"}).model, "-") << "a dash alone is standard input";
  EXPECT_EQ(read("[model]", {"--model", ""}).model, "");
  EXPECT_EQ(read("[model]", {"--model="}).model, "");
  expect_part(error_of("model", {"m", "--max-tokens", "-1"}), "expected an integer, >= 0");
}

TEST(Flags, ListsTakeWholeItems) {
  EXPECT_EQ(read("model", {"m", "--stop", "a,b", "--stop=c"}).stop, (std::vector<std::string>{"a,b", "c"}));
  EXPECT_EQ(read("model", {"m", "--stop=[\"x\", \"y\"]"}).stop, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(read("model", {"m", "--stop", ""}).stop, (std::vector<std::string>{""}));
}

TEST(Flags, Mistakes) {
  expect_part(error_of("model", {"m", "--max-tokn=5"}), "unknown flag --max-tokn (did you mean '--max-tokens'?)");
  expect_part(error_of("model", {"m", "--data.lr=5"}), "unknown flag --data.lr (did you mean '--optim.lr'?)");
  EXPECT_EQ(read("model", {"m", "--lr=5"}).optim.lr, 5) << "a section may be left out where the name is clear";
  expect_part(error_of("model", {"m", "-j"}), "unknown flag -j");
  expect_part(error_of("model", {"m", "--json", "--json"}), "--json is given twice");
  expect_part(error_of("model", {"m", "--model=n"}), "is given twice");
  expect_part(error_of("model", {}), "MODEL is missing; usage: espalier try MODEL");
  expect_part(error_of("model files...", {"m"}), "FILES... is missing");
  expect_part(error_of("model", {"m", "n"}), "unexpected argument 'n'");
  expect_part(error_of("model", {"m", "--max-tokens"}), "--max-tokens needs a value");
  expect_part(error_of("model", {"m", "--max-tokens", "--json"}), "write --max-tokens=--json if that");
  expect_part(error_of("model", {"m", "--json=yes"}), "expected true or false");
  expect_part(error_of("model", {"m", "--threads=5000"}), "0 to 1024");
}

TEST(Flags, FlagsOverrideTheRecipe) {
  const auto path = std::filesystem::temp_directory_path() / fmt::format("espalier_flags_{}.toml", ::getpid());
  std::ofstream(path) << "max_tokens = 1\n[optim]\nlr = 2\n";
  const Options o = read("RECIPE", {path, "--optim.lr=3"});
  EXPECT_EQ(o.max_tokens, 1);
  EXPECT_EQ(o.optim.lr, 3);
  std::filesystem::remove(path);
  EXPECT_EQ(read("[RECIPE]", {"--max-tokens=4"}).max_tokens, 4);
  expect_part(error_of("RECIPE", {}), "RECIPE.toml is missing");
}

}  // namespace
}  // namespace espalier
