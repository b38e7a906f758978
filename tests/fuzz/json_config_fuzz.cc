// The readers of JSON, of TOML recipes and of single settings: any bytes give a value or an Error.
#include <cstdlib>

#include "base/config.h"
#include "base/error.h"
#include "base/json.h"
#include "base/json_value.h"
#include "fuzz.h"

namespace {

struct Inner {
  double lr = 3e-4;
  std::string schedule = "cosine";
  void visit(espalier::Fields& f) {
    f.field("lr", lr, "peak rate", 0, 10);
    f.choice("schedule", schedule, {"cosine", "linear"}, "how it falls");
  }
};

struct Config {
  Inner optim;
  bool resume = false;
  int64_t steps = 10;
  std::string out;
  std::vector<std::string> data;
  void visit(espalier::Fields& f) {
    f.field("resume", resume, "continue");
    f.field("steps", steps, "how many", 1, 1000);
    f.field("out", out, "folder");
    f.field("data", data, "shards");
    f.section("optim", optim, "optimizer");
  }
};

template <class F>
void attempt(F&& read) {
  try {
    read();
  } catch (const espalier::Error&) {  // the edge: an Error is a right answer to bad input
  }
}

void check(const Config& config) {
  if (config.steps < 1 || config.steps > 1000 || !(config.optim.lr >= 0 && config.optim.lr <= 10)) std::abort();
  if (config.optim.schedule != "cosine" && config.optim.schedule != "linear") std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  attempt([&] {
    const espalier::Json json = espalier::parse_json(text, "input");
    // What was read can be written and read again.
    if (espalier::parse_json(json.dump(), "copy") != json) std::abort();
    if (espalier::json_get_or<int64_t>(json, "steps", 1, "input") == 0) return;
    espalier::json_get<std::string>(json, "out", "input");
  });
  attempt([&] { espalier::parse_json_unique(text, "input"); });
  attempt([&] {
    Config config;
    espalier::config_from_toml(text, "input", ESP_CONFIG(config));
    check(config);
    Config again;
    espalier::config_from_toml(espalier::config_to_toml(ESP_CONFIG(config)), "copy", ESP_CONFIG(again));
    if (again.steps != config.steps || again.out != config.out || again.data != config.data) std::abort();
    if (again.optim.lr != config.optim.lr || again.resume != config.resume) std::abort();
  });
  for (const char* path : {"steps", "optim.lr", "resume", "optim.schedule", "data", "out"})
    attempt([&] {
      Config config;
      espalier::config_set(path, text, "--flag", ESP_CONFIG(config));
      check(config);
    });
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {"{\"steps\": 5, \"out\": \"x\", \"list\": [1, 2.5, null, true, \"\\u00e9\"]}",
          "steps = 20\nresume = true\nout = \"run\"\ndata = [\"a\", \"b\"]\n[optim]\nlr = 1e-3\nschedule = 'linear'\n",
          "optim = { lr = 0.5 }\n# comment\nout = \"\"\"\nlong\\\n  line\"\"\"\n",
          "true", "17", "0.25", "linear", "a,b", "\"quoted\\n\"", "[1, 2"};
}
