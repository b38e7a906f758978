#include "text/tokenizer_json.h"

#include <simdjson.h>

#include "base/json_value.h"
#include "text/tokenizer_json_model.h"

namespace espalier {
namespace {

// A vocabulary of 150,000 tokens with its merges is most of the file; simdjson reads it in a hundredth of the time that
// a tree of nlohmann's takes. Everything else is small and converted into such a tree.
using Element = simdjson::dom::element;
constexpr int kMaxDepth = 64;

const Json kNull;

void open_sequence(const JsonReader& reader, const Json& part, const char* name, const char* list,
                   std::vector<const Json*>& steps) {
  if (type_of(reader, part, name) != "Sequence") return steps.push_back(&part);
  const Json& array = member(part, list);
  if (!array.is_array()) throw reader.bad("\"{}\" is a Sequence without the array \"{}\"", name, list);
  for (const Json& step : array) open_sequence(reader, step, name, list, steps);
}

/// A tree of all but the model's vocabulary and merges.
Json to_json(const JsonReader& reader, Element element, int depth = 0) {
  if (depth > kMaxDepth) throw reader.bad("JSON nested deeper than {}", kMaxDepth);
  simdjson::dom::array items;
  if (!element.get(items)) {
    Json array = Json::array();
    for (const Element item : items) array.push_back(to_json(reader, item, depth + 1));
    return array;
  }
  simdjson::dom::object members;
  if (!element.get(members)) {
    Json object = Json::object();
    for (const auto [key, value] : members)
      if (depth != 1 || (key != "vocab" && key != "merges"))
        object[std::string(key)] = to_json(reader, value, depth + 1);
    return object;
  }
  std::string_view text;
  if (!element.get(text)) return std::string(text);
  if (bool value; !element.get(value)) return value;
  if (int64_t value; !element.get(value)) return value;
  if (uint64_t value; !element.get(value)) return value;
  if (double value; !element.get(value)) return value;
  return nullptr;
}

std::vector<AddedToken> read_added_tokens(const JsonReader& reader, const Json& list) {
  std::vector<AddedToken> tokens;
  if (list.is_null()) return tokens;
  if (!list.is_array()) throw reader.bad("\"added_tokens\" is {}; expected an array", list.type_name());
  const std::string what = reader.what + " (added_tokens)";
  for (const Json& entry : list) {
    AddedToken token;
    token.content = json_get<std::string>(entry, "content", what);
    token.id = read_id(reader, member(entry, "id"), token.content);
    token.special = json_get_or(entry, "special", false, what);
    token.normalized = json_get_or(entry, "normalized", !token.special, what);
    token.single_word = json_get_or(entry, "single_word", false, what);
    token.lstrip = json_get_or(entry, "lstrip", false, what);
    token.rstrip = json_get_or(entry, "rstrip", false, what);
    tokens.push_back(std::move(token));
  }
  return tokens;
}

}  // namespace

const Json& member(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found == object.end() ? kNull : *found;
}

std::string type_of(const JsonReader& reader, const Json& part, const char* name) {
  if (!part.is_object()) throw reader.bad("\"{}\" is {}; expected an object or null", name, part.type_name());
  return json_get<std::string>(part, "type", fmt::format("{} ({})", reader.what, name));
}

std::vector<const Json*> sequence(const JsonReader& reader, const Json& part, const char* name, const char* list) {
  std::vector<const Json*> steps;
  if (!part.is_null()) open_sequence(reader, part, name, list, steps);
  return steps;
}

Error bad_id(const JsonReader& reader, std::string_view token, const std::string& found) {
  return reader.bad("token \"{}\" has the id {}; expected an integer from 0 to {}", token, found, kMaxVocabulary - 1);
}

int32_t read_id(const JsonReader& reader, const Json& value, std::string_view token) {
  if (!value.is_number_integer() || value < 0 || value >= kMaxVocabulary) throw bad_id(reader, token, value.dump());
  return value.get<int32_t>();
}

TokenizerParts parse_tokenizer_json(std::string_view text, const std::string& what) {
  JsonReader reader{what};
  simdjson::dom::parser parser;
  Element file;
  if (const auto failure = parser.parse(text.data(), text.size()).get(file)) {
    parse_json(text, what);  // says where it is wrong
    throw reader.bad("not valid JSON: {}", simdjson::error_message(failure));
  }
  const Json json = to_json(reader, file);
  if (!json.is_object()) throw reader.bad("the file holds {}; expected an object", json.type_name());
  TokenizerParts parts;
  parts.normalizer = read_normalizer(reader, member(json, "normalizer"));
  read_pre_tokenizer(reader, member(json, "pre_tokenizer"), parts);
  const std::vector<AddedToken> added = read_added_tokens(reader, member(json, "added_tokens"));
  read_model(reader, member(json, "model"), file, added, parts);
  read_post_processor(reader, member(json, "post_processor"), parts);
  parts.decoder = read_decoder(reader, member(json, "decoder"), parts.byte_level);
  parts.added = AddedTokens(added, parts.normalizer);
  return parts;
}

}  // namespace espalier
