#include "text/gguf_pre.h"

#include "base/error.h"
#include "base/json_value.h"

namespace espalier {
namespace {

const GgufPre kPres[] = {
    {.name = "gpt-2", .split = nullptr},
    {.name = "llama-bpe", .split = &kLlama3Split, .ignore_merges = true},
    {.name = "qwen2", .split = &kQwen2Split, .nfc = true},
    {.name = "deepseek-r1-qwen", .split = &kQwen2Split, .nfc = true},
    {.name = "smollm", .split = nullptr, .single_digits = true},
};

}  // namespace

std::span<const GgufPre> gguf_pres() { return kPres; }

const GgufPre& find_gguf_pre(const std::string& name, const std::string& what) {
  std::string known;
  for (const GgufPre& row : kPres) {
    if (name == row.name) return row;
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  throw error(Code::kUnsupported, "reading {}: metadata 'tokenizer.ggml.pre' is '{}'; those known are {}", what, name,
              known);
}

Json pre_tokenizer_json(const GgufPre& row) {
  const Json bytes = {{"type", "ByteLevel"},
                      {"add_prefix_space", false},
                      {"trim_offsets", true},
                      {"use_regex", row.split == nullptr}};
  Json steps = Json::array();
  if (row.single_digits) steps.push_back({{"type", "Digits"}, {"individual_digits", true}});
  if (row.split)
    steps.push_back({{"type", "Split"},
                     {"pattern", {{"Regex", row.split->regex}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  steps.push_back(bytes);
  return steps.size() == 1 ? bytes : Json{{"type", "Sequence"}, {"pretokenizers", steps}};
}

Json normalizer_json(const GgufPre& pre) { return pre.nfc ? Json{{"type", "NFC"}} : Json(); }

std::string pre_tokenizer_rules(const Json& pre) {
  if (!pre.is_object()) return pre.dump();
  const std::string type = pre.value("type", "");
  std::string rules;
  if (type == "Sequence") {
    for (const Json& step : pre.value("pretokenizers", Json::array())) rules += pre_tokenizer_rules(step);
    return rules;
  }
  if (type == "ByteLevel" && !pre.value("add_prefix_space", true))
    return pre.value("use_regex", true) ? "gpt2 bytes;" : "bytes;";
  if (type == "Digits") return pre.value("individual_digits", false) ? "digits;" : "numbers;";
  if (type == "Split" && pre.value("behavior", "Isolated") == "Isolated" && !pre.value("invert", false))
    return "split " + pre.value("pattern", Json::object()).dump() + ";";
  return pre.dump();
}

}  // namespace espalier
