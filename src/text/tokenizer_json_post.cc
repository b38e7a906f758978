// The "post_processor" of tokenizer.json: what stands around a text.

#include "base/json_value.h"
#include "text/tokenizer_json_reader.h"

namespace espalier {
namespace {

int32_t template_token(const JsonReader& reader, const std::string& name) {
  const auto found = reader.ids.find(name);
  if (found == reader.ids.end()) throw reader.bad("the post-processor names the token \"{}\", which is absent", name);
  return found->second;
}

void read_template(const JsonReader& reader, const Json& step, TokenizerParts& parts) {
  const Json& single = member(step, "single");
  if (!single.is_array()) throw reader.bad("TemplateProcessing without the array \"single\"");
  bool behind_text = false;
  for (const Json& item : single) {
    if (!member(item, "Sequence").is_null()) {
      if (behind_text) throw reader.unsupported("a template that repeats the text");
      behind_text = true;
      continue;
    }
    const std::string name =
        json_get<std::string>(member(item, "SpecialToken"), "id", reader.what + " (TemplateProcessing)");
    // The name stands for the ids of its entry in special_tokens; in practice that is the token of this name.
    const Json& ids = member(member(member(step, "special_tokens"), name.c_str()), "ids");
    auto& side = behind_text ? parts.suffix : parts.prefix;
    if (!ids.is_array()) {
      side.push_back(template_token(reader, name));
      continue;
    }
    for (const Json& id : ids) {
      side.push_back(read_id(reader, id, name));
      if (!parts.vocabulary.has(side.back())) throw reader.bad("the post-processor's id {} is no token", side.back());
    }
  }
  if (!behind_text) throw reader.unsupported("a template without the text");
}

/// BertProcessing and RobertaProcessing: ["<s>", 0] before, ["</s>", 2] behind.
int32_t read_pair(const JsonReader& reader, const Json& pair, const char* key) {
  if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string())
    throw reader.bad("post_processor.{} is not [token, id]", key);
  return template_token(reader, pair[0].get<std::string>());
}

}  // namespace

void read_post_processor(const JsonReader& reader, const Json& part, TokenizerParts& parts) {
  for (const Json* step : sequence(reader, part, "post_processor", "processors")) {
    const std::string type = type_of(reader, *step, "post_processor");
    if (type == "ByteLevel") continue;  // it trims offsets, which ours need not
    if (!parts.prefix.empty() || !parts.suffix.empty()) throw reader.unsupported("a second post-processor ({})", type);
    if (type == "TemplateProcessing") {
      read_template(reader, *step, parts);
    } else if (type == "RobertaProcessing" || type == "BertProcessing") {
      parts.prefix = {read_pair(reader, member(*step, "cls"), "cls")};
      parts.suffix = {read_pair(reader, member(*step, "sep"), "sep")};
    } else {
      throw reader.unsupported("the post-processor {}", type);
    }
  }
}

}  // namespace espalier
