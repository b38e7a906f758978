#include "base/config.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/rng.h"

namespace espalier {
namespace {

struct Optim {
  double lr = 3e-4;
  std::string schedule = "cosine";
  void visit(Fields& f) {
    f.field("lr", lr, "peak learning rate", 0, 10);
    f.choice("schedule", schedule, {"cosine", "linear", "wsd"}, "how the rate falls");
  }
};

struct Eval {
  int64_t every = 100;
  void visit(Fields& f) { f.field("every", every, "steps between evaluations", 1); }
};

struct Train {
  std::string out = "runs/x";
  bool resume = false;
  int64_t seed = 1337;
  Optim optim;
  Eval eval;
  std::vector<std::string> files;
  void visit(Fields& f) {
    f.field("out", out, "the run folder");
    f.field("resume", resume, "go on from the last checkpoint");
    f.section("optim", optim, "Optimizer");
    f.section("eval", eval, "Evaluation");
    f.field("seed", seed, "seed of everything", 0, 1 << 30);
    f.field("files", files, "inputs");
  }
};

std::string message_of(FunctionRef<void()> act, Code expected = Code::kUsage) {
  try {
    act();
  } catch (const Error& e) {
    EXPECT_EQ(int(e.code()), int(expected)) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

std::string toml_error(std::string_view text) {
  Train train;
  return message_of([&] { config_from_toml(text, "demo.toml", ESP_CONFIG(train)); });
}

std::string flag_error(const std::string& path, const std::string& value) {
  Train train;
  return message_of([&] { config_set(path, value, "--" + path, ESP_CONFIG(train)); });
}

TEST(Config, ReadsEveryTypeAndKeepsDefaults) {
  Train train;
  config_from_toml(R"(
out = "runs/y"
resume = true
seed = 1_000
files = ["a", "b c"]
[optim]
schedule = "wsd"
lr = 1
)",
                   "demo.toml", ESP_CONFIG(train));
  EXPECT_EQ(train.out, "runs/y");
  EXPECT_TRUE(train.resume);
  EXPECT_EQ(train.seed, 1000);
  EXPECT_EQ(train.optim.lr, 1.0);  // an integer is a number too
  EXPECT_EQ(train.optim.schedule, "wsd");
  EXPECT_EQ(train.eval.every, 100);
  EXPECT_EQ(train.files, (std::vector<std::string>{"a", "b c"}));
}

TEST(Config, UnknownKeyNamesPlaceAndNearest) {
  EXPECT_EQ(toml_error("\n[optim]\nlrr = 1\n"), "demo.toml:3: unknown key 'optim.lrr' (did you mean 'optim.lr'?)");
  EXPECT_EQ(toml_error("every = 3"), "demo.toml:1: unknown key 'every' (did you mean 'eval.every'?)");
  EXPECT_EQ(toml_error("[optim]\nwhatever = 3"),
            "demo.toml:2: unknown key 'optim.whatever'; [optim] has lr, schedule");
  EXPECT_EQ(toml_error("[optin]\nlr = 3"), "demo.toml:1: unknown section [optin] (did you mean 'optim'?)");
  EXPECT_EQ(toml_error("nothing_like_it = 3"),
            "demo.toml:1: unknown key 'nothing_like_it'; the top level has out, resume, seed, files, [optim], [eval]");
}

TEST(Config, WrongTypesAndRanges) {
  EXPECT_EQ(toml_error("[optim]\nlr = \"fast\""), "demo.toml:2: optim.lr = 'fast': expected a number, 0 to 10");
  EXPECT_EQ(toml_error("[optim]\nlr = -1"), "demo.toml:2: optim.lr = -1: expected a number, 0 to 10");
  EXPECT_EQ(toml_error("[optim]\nlr = nan"), "demo.toml:2: optim.lr = nan: expected a number, 0 to 10");
  EXPECT_EQ(toml_error("seed = 1.5"), "demo.toml:1: seed = 1.5: expected an integer, 0 to 1073741824");
  EXPECT_EQ(toml_error("[eval]\nevery = 0"), "demo.toml:2: eval.every = 0: expected an integer, >= 1");
  EXPECT_EQ(toml_error("resume = 1"), "demo.toml:1: resume = 1: expected true or false");
  EXPECT_EQ(toml_error("[optim]\nschedule = \"cosin\""),
            "demo.toml:2: optim.schedule = 'cosin': expected one of cosine, linear, wsd");
  EXPECT_EQ(toml_error("files = [1]"), "demo.toml:1: files = [ 1 ]: expected a list of texts in UTF-8");
  EXPECT_EQ(toml_error("optim = 3"), "demo.toml:1: 'optim' is a section: write [optim] and its keys below");
}

TEST(Config, BrokenTomlNamesLine) {
  EXPECT_EQ(toml_error("seed = 1\nout = \"x").substr(0, 30), "demo.toml:2: not valid TOML at");
  EXPECT_EQ(toml_error("seed = 1\nseed = 2").substr(0, 30), "demo.toml:2: not valid TOML at");
}

TEST(Config, FlagsSetFields) {
  Train train;
  const auto set = [&](const char* path, const char* value) {
    config_set(path, value, std::string("--") + path, ESP_CONFIG(train));
  };
  set("optim.lr", "1e-3");
  set("seed", "+1_000");
  set("resume", "true");
  set("out", "a=b");
  set("optim.schedule", "linear");
  set("files", "a,b");
  EXPECT_EQ(train.files, (std::vector<std::string>{"a,b"})) << "an item may hold a comma";
  config_set("files", std::vector<std::string>{"a", "b"}, "FILES", ESP_CONFIG(train));
  EXPECT_EQ(train.optim.lr, 1e-3);
  EXPECT_EQ(train.seed, 1000);
  EXPECT_TRUE(train.resume);
  EXPECT_EQ(train.out, "a=b");
  EXPECT_EQ(train.optim.schedule, "linear");
  EXPECT_EQ(train.files, (std::vector<std::string>{"a", "b"}));
  set("files", R"(["one, two", "three"])");
  EXPECT_EQ(train.files, (std::vector<std::string>{"one, two", "three"}));
  set("files", "");
  EXPECT_TRUE(train.files.empty());
}

TEST(Config, FlagErrors) {
  EXPECT_EQ(flag_error("optim.lr", "fast"), "--optim.lr=fast: expected a number, 0 to 10");
  EXPECT_EQ(flag_error("optim.lr", "1e-3x"), "--optim.lr=1e-3x: expected a number, 0 to 10");
  EXPECT_EQ(flag_error("seed", ""), "--seed=: expected an integer, 0 to 1073741824");
  EXPECT_EQ(flag_error("seed", "99999999999999999999"),
            "--seed=99999999999999999999: expected an integer, 0 to 1073741824");
  EXPECT_EQ(flag_error("resume", "yes"), "--resume=yes: expected true or false");
  EXPECT_EQ(flag_error("optim.sched", "wsd"),
            "--optim.sched: unknown key 'optim.sched' (did you mean 'optim.schedule'?)");
  EXPECT_EQ(flag_error("out", "\xff\xfe"), "--out=\xff\xfe: expected a text in UTF-8");
}

TEST(Config, WritesWhatItReads) {
  Train train;
  train.out = "a \"quoted\" \\ path\n\ttab \x01 \x7f caf\xC3\xA9";
  train.files = {"", "x,y", "]"};
  train.optim.lr = 0.1 + 0.2;
  const std::string text = config_to_toml(ESP_CONFIG(train));
  Train back;
  config_from_toml(text, "resolved", ESP_CONFIG(back));
  EXPECT_EQ(back.out, train.out);
  EXPECT_EQ(back.files, train.files);
  EXPECT_EQ(back.optim.lr, train.optim.lr);
  EXPECT_EQ(config_to_toml(ESP_CONFIG(back)), text);
  EXPECT_LT(text.find("seed = "), text.find("[optim]")) << "top-level keys come before the first section";
}

TEST(Config, NumbersSurviveTheRoundTripExactly) {
  struct One {
    double x = 0;
    int64_t n = 0;
    void visit(Fields& f) {
      f.field("x", x, "a number");
      f.field("n", n, "an integer");
    }
  };
  const Rng rng(1, Purpose::kTest);
  std::vector<double> values = {0.0, -0.0, 1.0, 1e22, 1e-5, 3e-4, 0.1, 1e300, -1e300, 5e-324, 1e100};
  for (uint64_t i = 0; i < 2000; ++i) {
    const double x = std::bit_cast<double>(rng.u64(i));
    if (std::abs(x) <= 1e300) values.push_back(x);
  }
  for (const double x : values) {
    One one{x, int64_t(std::bit_cast<uint64_t>(x))}, back;
    config_from_toml(config_to_toml(ESP_CONFIG(one)), "resolved", ESP_CONFIG(back));
    EXPECT_EQ(std::bit_cast<uint64_t>(back.x), std::bit_cast<uint64_t>(x)) << x;
    EXPECT_EQ(back.n, one.n);
  }
}

TEST(Config, FieldsInOrderWithRanges) {
  Train train;
  const std::vector<FieldInfo> fields = config_fields(ESP_CONFIG(train));
  ASSERT_EQ(fields.size(), 7u);
  EXPECT_EQ(fields[2].path, "optim.lr");
  EXPECT_EQ(fields[2].type, "number");
  EXPECT_EQ(fields[2].value, "0.0003");
  EXPECT_EQ(fields[2].range, "0 to 10");
  EXPECT_EQ(fields[3].range, "cosine | linear | wsd");
  EXPECT_EQ(fields[4].range, ">= 1");
  EXPECT_EQ(fields[6].type, "list");
}

TEST(Config, HelpAndMarkdownNameEveryField) {
  Train train;
  const std::string help = config_help(ESP_CONFIG(train)), markdown = config_markdown(ESP_CONFIG(train));
  for (const FieldInfo& field : config_fields(ESP_CONFIG(train))) {
    EXPECT_NE(help.find(flag_name(field.path) + " " + field.type), std::string::npos) << field.path;
    EXPECT_NE(markdown.find("`" + field.path.substr(field.path.rfind('.') + 1) + "`"), std::string::npos);
  }
  EXPECT_NE(help.find("peak learning rate [0.0003; 0 to 10]"), std::string::npos) << help;
  EXPECT_NE(markdown.find("### [optim]: Optimizer"), std::string::npos) << markdown;
  EXPECT_NE(markdown.find("cosine \\| linear"), std::string::npos) << "a bar would end the cell";
}

TEST(Config, FlagNames) {
  EXPECT_EQ(flag_name("max_tokens"), "--max-tokens");
  EXPECT_EQ(flag_name("optim.warmup_steps"), "--optim.warmup_steps");
}

TEST(Config, ReadsFilesAndSaysWhichIsMissing) {
  Train train;
  const std::string message =
      message_of([&] { config_from_toml_file("/nowhere/x.toml", ESP_CONFIG(train)); }, Code::kNotFound);
  EXPECT_NE(message.find("/nowhere/x.toml"), std::string::npos);
}

TEST(Config, DeepNestingIsRefusedNotFatal) {
  std::string deep = "files = ";
  deep += std::string(100000, '[');
  EXPECT_NE(toml_error(deep).find("not valid TOML"), std::string::npos);
}

}  // namespace
}  // namespace espalier
