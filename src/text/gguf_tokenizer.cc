#include "text/gguf_tokenizer.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "text/split.h"
#include "text/utf8.h"
#include "text/vocabulary.h"

namespace espalier {
namespace {

using Type = GgufVocabulary::Type;

// A name of tokenizer.ggml.pre and its rules. A new one is a row here.
struct PreRow {
  const char* name;
  const SplitPattern* split;  // nullptr: GPT-2's, inside ByteLevel
  bool single_digits = false;
  bool ignore_merges = false;
};
const PreRow kPres[] = {
    {"gpt-2", nullptr},
    {"llama-bpe", &kLlama3Split, false, true},
    {"qwen2", &kQwen2Split},
    {"deepseek-r1-qwen", &kQwen2Split},
    {"smollm", nullptr, true},
};

const PreRow& find_pre(const std::string& name, const std::string& what) {
  std::string known;
  for (const PreRow& row : kPres) {
    if (name == row.name) return row;
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  throw error(Code::kUnsupported, "reading {}: metadata 'tokenizer.ggml.pre' is '{}'; those known are {}", what, name,
              known);
}

Json pre_tokenizer_json(const PreRow& row) {
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

/// What decides about pieces, the same for all ways to write it down.
std::string rules_of(const Json& pre) {
  if (!pre.is_object()) return pre.dump();
  const std::string type = pre.value("type", "");
  std::string rules;
  if (type == "Sequence") {
    for (const Json& step : pre.value("pretokenizers", Json::array())) rules += rules_of(step);
    return rules;
  }
  if (type == "ByteLevel" && !pre.value("add_prefix_space", true))
    return pre.value("use_regex", true) ? "gpt2 bytes;" : "bytes;";
  if (type == "Digits") return pre.value("individual_digits", false) ? "digits;" : "numbers;";
  if (type == "Split" && pre.value("behavior", "Isolated") == "Isolated" && !pre.value("invert", false))
    return "split " + pre.value("pattern", Json::object()).dump() + ";";
  return pre.dump();
}

void check(const GgufVocabulary& v, const std::string& what) {
  if (v.model != "gpt2")
    throw error(Code::kUnsupported, "reading {}: metadata 'tokenizer.ggml.model' is '{}'; the kind known is gpt2", what,
                v.model);
  if (int64_t(v.tokens.size()) > kMaxVocabulary)
    throw error(Code::kBadData, "reading {}: {} tokens; at most {} are read", what, v.tokens.size(), kMaxVocabulary);
  if (!v.types.empty() && v.types.size() != v.tokens.size())
    throw error(Code::kBadData, "reading {}: {} tokens and {} token types; expected as many", what, v.tokens.size(),
                v.types.size());
  for (const auto& [id, key] : {std::pair{v.bos, "bos"}, std::pair{v.eos, "eos"}, std::pair{v.pad, "padding"}})
    if (id && (*id < 0 || *id >= int64_t(v.tokens.size())))
      throw error(Code::kBadData, "reading {}: metadata 'tokenizer.ggml.{}_token_id' is {}; expected 0 to {}", what,
                  key, *id, int64_t(v.tokens.size()) - 1);
}

/// A JSON string. nlohmann's costs a value each, and there are 300,000.
void append_json(std::string& out, const std::string& text, const std::string& what) {
  if (!is_utf8(text))
    throw error(Code::kBadData, "reading {}: a token or merge of its vocabulary is no UTF-8", what);
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (uint8_t(c) < 0x20) {
      out += fmt::format("\\u{:04x}", int(uint8_t(c)));
    } else {
      out += c;
    }
  }
  out += '"';
}

Type type_of(const GgufVocabulary& v, size_t id) { return v.types.empty() ? Type::kNormal : Type(v.types[id]); }

std::string vocabulary_json(const GgufVocabulary& v, const std::string& what) {
  std::string text = "{";
  for (size_t id = 0; id < v.tokens.size(); ++id) {
    if (type_of(v, id) == Type::kUnused) continue;  // fills the model's rows; no token of the tokenizer
    if (text.size() > 1) text += ',';
    append_json(text, v.tokens[id], what);
    text += fmt::format(":{}", id);
  }
  return text + "}";
}

std::string merges_json(const GgufVocabulary& v, const std::string& what) {
  std::string text = "[";
  for (const std::string& merge : v.merges) {
    if (text.size() > 1) text += ',';
    append_json(text, merge, what);
  }
  return text + "]";
}

std::string added_json(const GgufVocabulary& v) {
  Json added = Json::array();
  for (size_t id = 0; id < v.tokens.size(); ++id) {
    const Type type = type_of(v, id);
    if (type != Type::kControl && type != Type::kUserDefined && type != Type::kUnknown) continue;
    added.push_back({{"id", id},
                     {"content", v.tokens[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", type != Type::kUserDefined}});
  }
  return added.dump();
}

/// Puts BOS before the text and EOS behind it, where the file asks for them.
Json post_processor_json(const GgufVocabulary& v) {
  Json single = Json::array(), special = Json::object();
  const auto add = [&](std::optional<int64_t> id) {
    const std::string& token = v.tokens[size_t(*id)];
    single.push_back({{"SpecialToken", {{"id", token}, {"type_id", 0}}}});
    special[token] = {{"id", token}, {"ids", {*id}}, {"tokens", {token}}};
  };
  if (v.add_bos && v.bos) add(v.bos);
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  if (v.add_eos && v.eos) add(v.eos);
  if (single.size() == 1) return nullptr;
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", Json::array()}, {"special_tokens", special}};
}

std::optional<int32_t> narrow(std::optional<int64_t> id) { return id ? std::optional(int32_t(*id)) : std::nullopt; }

Type type_in(const Tokenizer& tokenizer, const Json& added, int32_t id) {
  for (const Json& token : added)
    if (token.value("id", -1) == id) return token.value("special", false) ? Type::kControl : Type::kUserDefined;
  return tokenizer.token_text(id).empty() ? Type::kUnused : Type::kNormal;
}

}  // namespace

Tokenizer tokenizer_of(const GgufVocabulary& v, const std::string& what) {
  check(v, what);
  const PreRow& pre = find_pre(v.pre, what);
  for (size_t id = 0; id < v.tokens.size(); ++id)
    if (!is_utf8(v.tokens[id])) throw error(Code::kBadData, "reading {}: token {} is no UTF-8", what, id);
  const std::string json = fmt::format(
      R"({{"version":"1.0","truncation":null,"padding":null,"added_tokens":{},"normalizer":null,"pre_tokenizer":{},)"
      R"("post_processor":{},"decoder":{{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,)"
      R"("use_regex":true}},"model":{{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,)"
      R"("end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,"ignore_merges":{},"vocab":{},)"
      R"("merges":{}}}}})",
      added_json(v), pre_tokenizer_json(pre).dump(), post_processor_json(v).dump(), pre.ignore_merges,
      vocabulary_json(v, what), merges_json(v, what));
  return Tokenizer::from_json(json, "the tokenizer of " + what,
                              SpecialIds{.bos = narrow(v.bos), .eos = narrow(v.eos), .pad = narrow(v.pad)});
}

GgufVocabulary vocabulary_of(const Tokenizer& tokenizer, int64_t vocab_size, const std::string& what) {
  const Json json = parse_json(tokenizer.to_json(), "the tokenizer of " + what);
  GgufVocabulary v{.model = "gpt2", .bos = tokenizer.bos(), .eos = tokenizer.eos(), .pad = tokenizer.pad()};
  const std::string rules = rules_of(json.value("pre_tokenizer", Json()));
  const bool ignore_merges = json.at("model").value("ignore_merges", false);
  for (const PreRow& row : kPres)
    if (v.pre.empty() && rules_of(pre_tokenizer_json(row)) == rules && row.ignore_merges == ignore_merges)
      v.pre = row.name;
  if (v.pre.empty())
    throw error(Code::kUnsupported, "writing the tokenizer of {}: GGUF has no name for its pre-tokenizer {}", what,
                json.value("pre_tokenizer", Json()).dump());
  if (tokenizer.vocab_size() > vocab_size)
    throw error(Code::kMismatch, "writing the tokenizer of {}: it has {} tokens, the model {}", what,
                tokenizer.vocab_size(), vocab_size);
  const Json added = json.value("added_tokens", Json::array());
  for (int64_t id = 0; id < vocab_size; ++id) {
    v.types.push_back(type_in(tokenizer, added, int32_t(id)));
    v.tokens.push_back(v.types.back() == Type::kUnused ? fmt::format("[PAD{}]", id)
                                                       : tokenizer.token_text(int32_t(id)));
  }
  for (const Json& merge : json.at("model").at("merges"))
    v.merges.push_back(merge.is_string() ? merge.get<std::string>()
                                         : merge.at(0).get<std::string>() + " " + merge.at(1).get<std::string>());
  const std::vector<int32_t> around = tokenizer.encode("", {.add_special = true});
  v.add_bos = v.bos && !around.empty() && around.front() == *v.bos;
  v.add_eos = v.eos && around.size() > size_t(v.add_bos) && around.back() == *v.eos;
  return v;
}

}  // namespace espalier
