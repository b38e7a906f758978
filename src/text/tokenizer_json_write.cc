// Writing tokenizer.json; reading is tokenizer_json.cc.
#include <algorithm>

#include "base/check.h"
#include "base/json.h"
#include "base/json_value.h"
#include "text/tokenizer_json.h"

namespace espalier {
namespace {

OrderedJson pre_tokenizer_json(const SplitPattern& pattern) {
  OrderedJson bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}};
  bytes["use_regex"] = &pattern == &kGpt2Split;
  if (&pattern == &kGpt2Split) return bytes;
  const OrderedJson split = {
      {"type", "Split"}, {"pattern", {{"Regex", pattern.regex}}}, {"behavior", "Isolated"}, {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", OrderedJson::array({split, bytes})}};
}

OrderedJson added_tokens_json(const ByteLevelModel& model) {
  OrderedJson added = OrderedJson::array();
  for (const std::string& token : model.special_tokens) {
    const auto found = std::find(model.tokens.begin(), model.tokens.end(), token);
    ESP_CHECK(found != model.tokens.end(), "special token {} is in no vocabulary", token);
    added.push_back({{"id", found - model.tokens.begin()},
                     {"content", token},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  return added;
}

/// {"a":0,...} in the order of ids, one a line. Written by hand: an ordered JSON object looks for a key in linear time.
std::string vocabulary_text(const ByteLevelModel& model) {
  std::string text = "{";
  for (size_t id = 0; id < model.tokens.size(); ++id)
    text += fmt::format("{}\n      {}: {}", id ? "," : "", Json(model.tokens[id]).dump(), id);
  return text + "\n    }";
}

std::string merges_text(const ByteLevelModel& model) {
  std::string text = "[";
  for (size_t i = 0; i < model.merges.size(); ++i) {
    const Merge& merge = model.merges[i];
    text += fmt::format("{}\n      [{}, {}]", i ? "," : "", Json(model.tokens[size_t(merge.left)]).dump(),
                        Json(model.tokens[size_t(merge.right)]).dump());
  }
  return text + "\n    ]";
}

}  // namespace

std::string write_tokenizer_json(const ByteLevelModel& model) {
  ESP_CHECK(model.pattern != nullptr, "a tokenizer without a pattern");
  const OrderedJson decoder = {
      {"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}};
  return fmt::format(R"({{
  "version": "1.0",
  "truncation": null,
  "padding": null,
  "added_tokens": {},
  "normalizer": null,
  "pre_tokenizer": {},
  "post_processor": null,
  "decoder": {},
  "model": {{
    "type": "BPE",
    "dropout": null,
    "unk_token": null,
    "continuing_subword_prefix": null,
    "end_of_word_suffix": null,
    "fuse_unk": false,
    "byte_fallback": false,
    "ignore_merges": false,
    "vocab": {},
    "merges": {}
  }}
}}
)",
                     added_tokens_json(model).dump(), pre_tokenizer_json(*model.pattern).dump(), decoder.dump(),
                     vocabulary_text(model), merges_text(model));
}

}  // namespace espalier
