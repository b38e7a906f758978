// Adapters against transformers (tools/make_lora_golden.py), and that they change nobody else's answer.
#include "models/lora.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "engine/generator.h"
#include "formats/gguf_writer.h"
#include "formats/safetensors_writer.h"
#include "formats/test_folder.h"
#include "models/golden_model.h"
#include "models/gguf_weights.h"

namespace espalier {
namespace {

std::string adapter_folder(const std::string& name) {
  return std::string(ESP_SOURCE_DIR) + "/tests/golden/lora/" + name;
}

struct Recorded {
  GenerateResult result;
  std::vector<std::vector<float>> logits;
};

Recorded run(Generator& generator, GenerateRequest request) {
  Recorded recorded;
  request.on_logits = [&](std::span<const float> row) { recorded.logits.emplace_back(row.begin(), row.end()); };
  recorded.result = generator.generate(std::move(request));
  return recorded;
}

GenerateRequest request_of(const GoldenModel& g, int64_t prompt, std::vector<LoraUse> lora) {
  return {.prompt = {g.ids.begin(), g.ids.begin() + prompt}, .max_tokens = 6, .sampler = {.temperature = 0},
          .ignore_eos = true, .lora = std::move(lora)};
}

/// Relative error of the logits behind prompts of every length to those that transformers gave.
double error_to_golden(GoldenModel& g, const std::string& name, const std::vector<LoraUse>& lora) {
  const SafetensorsFile golden = SafetensorsFile::open(adapter_folder(name) + "/golden.safetensors");
  const Tensor logits = golden.tensor("logits");
  const int64_t vocab = logits.shape()[1];
  double worst = 0;
  for (int64_t prompt = 1; prompt <= g.rows; ++prompt) {
    Generator generator(g.ctx, *g.model, nullptr);
    const Recorded recorded = run(generator, request_of(g, prompt, lora));
    const float* expected = logits.as<float>() + (prompt - 1) * vocab;
    worst = std::max(worst, relative_error(recorded.logits[0].data(), expected, vocab));
  }
  return worst;
}

// Factors of 0.3 in random directions change logits by a good part of themselves; the bound is that of all f32 results.
TEST(Lora, GivesTheLogitsOfTransformers) {
  for (const std::string name : {"llama3", "gpt2", "gpt_neox"})
    for (const Isa isa : isas_here()) {
      GoldenModel g(name, isa);
      const auto adapter = LoraAdapter::load(adapter_folder(name), g.model->spec());
      EXPECT_LT(error_to_golden(g, name, {{adapter, 1}}), 1e-4) << name << " " << isa_name(isa);
      EXPECT_GT(error_to_golden(g, name, {}), 0.01) << "the adapter changes nothing";
      EXPECT_GT(adapter->parameters(), 100);
    }
}

// Half of an adapter twice is the adapter.
TEST(Lora, ScalesAndSeveralAddUp) {
  GoldenModel g("llama3", choose_isa());
  const auto adapter = LoraAdapter::load(adapter_folder("llama3") + "/adapter_model.safetensors", g.model->spec());
  EXPECT_LT(error_to_golden(g, "llama3", {{adapter, 0.5f}, {adapter, 0.5f}}), 1e-4);
  EXPECT_GT(error_to_golden(g, "llama3", {{adapter, 0.5f}}), 0.01);
}

TEST(Lora, ARequestGetsItsOwnAndItsBitsDoNotDependOnOthers) {
  GoldenModel g("llama3", choose_isa());
  const auto adapter = LoraAdapter::load(adapter_folder("llama3"), g.model->spec());
  const std::vector<std::vector<LoraUse>> kinds = {{}, {{adapter, 1}}, {{adapter, -0.5f}}, {}};
  std::vector<GenerateRequest> requests;
  std::vector<Recorded> alone;
  for (size_t i = 0; i < kinds.size(); ++i) {
    requests.push_back(request_of(g, 12, kinds[i]));
    Generator generator(g.ctx, *g.model, nullptr);
    alone.push_back(run(generator, requests.back()));
  }
  EXPECT_NE(alone[0].logits, alone[1].logits);
  EXPECT_NE(alone[1].logits, alone[2].logits);
  EXPECT_EQ(alone[0].logits, alone[3].logits);
  // Together, twice: the second time everything was remembered, each reader's own.
  Generator generator(g.ctx, *g.model, nullptr, {.prefill_rows = 5, .remember = 8});
  for (int round = 0; round < 2; ++round) {
    std::vector<std::vector<std::vector<float>>> logits(requests.size());
    std::vector<GenerateRequest> watched = requests;
    for (size_t i = 0; i < watched.size(); ++i)
      watched[i].on_logits = [&, i](std::span<const float> row) { logits[i].emplace_back(row.begin(), row.end()); };
    const std::vector<GenerateResult> results = generator.generate(watched);
    for (size_t i = 0; i < results.size(); ++i) {
      EXPECT_EQ(results[i].ids, alone[i].result.ids) << i << " in round " << round;
      EXPECT_EQ(logits[i], alone[i].logits) << i << " in round " << round;
      EXPECT_EQ(results[i].cached_tokens, round == 0 ? 0 : 11) << i;
    }
  }
}

/// The adapter as llama.cpp's converter writes it: rows of queries in pairs, names of its own.
void write_gguf(const std::string& path, const std::string& architecture, const GoldenModel& g) {
  const SafetensorsFile peft = SafetensorsFile::open(adapter_folder("llama3") + "/adapter_model.safetensors");
  const GgufArch& arch = *find_gguf_arch_of("llama");
  GgufMetadataBuilder said;
  said.put("general.architecture", architecture);
  said.put("general.type", "adapter");
  said.put("adapter.type", "lora");
  said.put("adapter.lora.alpha", 6.0f);
  std::vector<PlannedGgufTensor> plan;
  std::vector<std::vector<float>> numbers;
  for (const std::string& name : peft.names()) {
    if (name.find("down_proj") != name.npos) continue;  // has an alpha of its own, which this format cannot say
    const bool is_a = name.find("lora_A") != name.npos;
    const std::string theirs = name.substr(17, name.find(".lora_") - 17) + ".weight";
    const Tensor tensor = peft.tensor(name);
    const int64_t rows = tensor.shape()[0], cols = tensor.shape()[1];
    std::vector<float> sorted(tensor.as<float>(), tensor.as<float>() + tensor.size());
    for (int64_t row = 0; !is_a && row < rows; ++row)
      std::copy_n(tensor.as<float>() + row * cols, cols,
                  sorted.begin() + gguf_row(arch, g.model->spec(), theirs, row) * cols);
    const std::string ours = *config_to_gguf_name(arch, theirs) + (is_a ? ".lora_a" : ".lora_b");
    plan.push_back({ours, GgmlType::kF32, tensor.shape()});
    numbers.push_back(std::move(sorted));
  }
  GgufWriter writer(path, said, plan);
  for (size_t i = 0; i < plan.size(); ++i) writer.write(plan[i].name, numbers[i].data(), int64_t(numbers[i].size()));
  writer.finish(false);
}

TEST(Lora, AGgufAdapterChangesWhatItsPeftOneDoes) {
  GoldenModel g("llama3", choose_isa());
  TestFolder folder;
  write_gguf(folder / "adapter.gguf", "llama", g);
  const auto gguf = LoraAdapter::load(folder / "adapter.gguf", g.model->spec());
  const auto peft = LoraAdapter::load(adapter_folder("llama3"), g.model->spec());
  const auto numbers = [](const Tensor& t) { return std::vector<float>(t.as<float>(), t.as<float>() + t.size()); };
  for (const WeightInfo& weight : weight_list(g.model->spec())) {
    const auto &ours = gguf->parts(weight.name), &theirs = peft->parts(weight.name);
    if (weight.name.ends_with("down.weight")) continue;
    ASSERT_EQ(ours.size(), theirs.size()) << weight.name;
    for (size_t i = 0; i < ours.size(); ++i) {
      EXPECT_EQ(ours[i].row, theirs[i].row);
      EXPECT_EQ(ours[i].scale, theirs[i].scale);
      EXPECT_EQ(numbers(ours[i].a), numbers(theirs[i].a)) << weight.name;
      EXPECT_EQ(numbers(ours[i].b), numbers(theirs[i].b)) << weight.name;
    }
  }
  write_gguf(folder / "other.gguf", "qwen2", g);
  EXPECT_THROW(LoraAdapter::load(folder / "other.gguf", g.model->spec()), Error);
}

class BrokenLora : public testing::Test {
 protected:
  void copy(const std::string& from = "llama3") {
    for (const char* name : {"/adapter_config.json", "/adapter_model.safetensors"})
      write(name, read_file(adapter_folder(from) + name));
  }
  void write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_.path() + "/" + name, std::ios::binary) << bytes;
  }
  /// The message of loading what is in the folder.
  std::string message() {
    try {
      LoraAdapter::load(folder_.path(), spec_);
    } catch (const Error& e) {  // the test's edge: the message is what is tested
      return e.what();
    }
    return "";
  }
  void expect(const std::string& part) { EXPECT_NE(message().find(part), std::string::npos) << message(); }

  TestFolder folder_;
  const ArchSpec spec_ = GoldenModel("llama3", choose_isa()).model->spec();
};

TEST_F(BrokenLora, SaysWhatIsMissing) {
  expect("there is no");
  copy();
  EXPECT_EQ(message(), "");
  copy("gpt2");
  expect("it changes transformer.h.0.attn.c_attn.weight");
  EXPECT_THROW(LoraAdapter::load(folder_ / "nothing", spec_), Error);
  copy();
  std::filesystem::remove(folder_ / "adapter_config.json");
  expect("adapter_config.json");
}

TEST_F(BrokenLora, NamesWhatHasNoPlace) {
  for (const auto& [config, part] :
       {std::pair{R"({"peft_type": "IA3"})", "peft_type IA3"}, {R"({"use_dora": true})", "use_dora is true"},
        {R"({"bias": "all"})", "bias is \"all\""}, {R"({"modules_to_save": ["lm_head"]})", "modules_to_save"},
        {R"({"lora_alpha": "x"})", "lora_alpha"}, {R"({"alpha_pattern": {"a.*": 3}})", "alpha_pattern 'a.*'"},
        {"[1]", "expected an object"}, {R"({"lora_alpha": 1e400})", ""}}) {
    copy();
    write("adapter_config.json", config);
    if (*part) expect(part);
    else EXPECT_NE(message(), "");
  }
}

TEST_F(BrokenLora, SurvivesTruncationEverywhere) {
  copy();
  const std::string whole = read_file(adapter_folder("llama3") + "/adapter_model.safetensors");
  for (size_t size = 0; size < whole.size(); size += size < 4096 ? 61 : 997) {
    write("adapter_model.safetensors", whole.substr(0, size));
    EXPECT_NE(message(), "") << size;
  }
}

TEST_F(BrokenLora, FactorsHaveTheModelsShapes) {
  const std::string module = "base_model.model.model.layers.0.self_attn.q_proj.lora_";
  const auto write_factors = [&](Shape a, Shape b, float value, bool both = true) {
    copy();
    std::vector<PlannedTensor> plan = {{module + "A.weight", DType::kF32, a}};
    if (both) plan.push_back({module + "B.weight", DType::kF32, b});
    SafetensorsWriter writer(folder_ / "adapter_model.safetensors", plan);
    for (const PlannedTensor& tensor : plan) {
      Tensor t(DType::kF32, tensor.shape);
      std::fill_n(t.as<float>(), t.size(), value);
      writer.write(tensor.name, t);
    }
    writer.finish();
  };
  const int64_t in = spec_.width, out = spec_.query_width();
  write_factors({4, in}, {out, 4}, 1);
  EXPECT_EQ(message(), "");
  write_factors({4, in + 1}, {out, 4}, 1);
  expect("the factors of model.layers.0.self_attn.q_proj.weight are");
  write_factors({4, in}, {out, 3}, 1);
  expect("the factors of");
  write_factors({4, in}, {out + 2, 4}, 1);
  expect("the factors of");
  write_factors({4, in}, {out, 4}, NAN);
  expect("NaN or infinity");
  write_factors({4, in}, {out, 4}, 1, false);
  expect("has its A factor only");
}

}  // namespace
}  // namespace espalier
