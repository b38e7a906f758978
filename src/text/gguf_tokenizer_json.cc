#include "text/gguf_tokenizer_json.h"

#include <fmt/core.h>

#include "base/json.h"
#include "base/json_value.h"

namespace espalier {

using Type = GgufVocabulary::Type;

Type gguf_token_type(const GgufVocabulary& v, size_t id) {
  return v.types.empty() ? Type::kNormal : Type(v.types[id]);
}

// nlohmann's strings cost a value each, and there may be half a million.
void append_json(std::string& out, std::string_view text) {
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

std::string gguf_vocabulary_json(const GgufVocabulary& v, const std::vector<std::string>& tokens) {
  std::string text = "{";
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (gguf_token_type(v, id) == Type::kUnused) continue;  // fills the model's rows; no token of the tokenizer
    if (text.size() > 1) text += ',';
    append_json(text, tokens[id]);
    text += fmt::format(":{}", id);
  }
  return text + "}";
}

std::string gguf_added_json(const GgufVocabulary& v, const std::vector<std::string>& tokens) {
  std::string text = "[";
  for (size_t id = 0; id < tokens.size(); ++id) {
    const Type type = gguf_token_type(v, id);
    if (type != Type::kControl && type != Type::kUserDefined && type != Type::kUnknown) continue;
    text += fmt::format("{}{{\"id\":{},\"content\":", text.size() > 1 ? "," : "", id);
    append_json(text, tokens[id]);
    text += fmt::format(R"(,"single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":{}}})",
                        type != Type::kUserDefined);
  }
  return text + "]";
}

std::string gguf_post_processor_json(const GgufVocabulary& v) {
  Json single = Json::array(), special = Json::object();
  const auto add = [&](std::optional<int64_t> id) {
    const std::string& token = v.tokens[size_t(*id)];
    single.push_back({{"SpecialToken", {{"id", token}, {"type_id", 0}}}});
    special[token] = {{"id", token}, {"ids", {*id}}, {"tokens", {token}}};
  };
  if (v.add_bos && v.bos) add(v.bos);
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  if (v.add_eos && v.eos) add(v.eos);
  if (single.size() == 1) return "null";
  return Json{{"type", "TemplateProcessing"}, {"single", single}, {"pair", Json::array()}, {"special_tokens", special}}
      .dump();
}

}  // namespace espalier
