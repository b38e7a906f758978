#include "text/tokenizer_json.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include <nlohmann/json.hpp>
#include <simdjson.h>

#include "base/error.h"
#include "base/json.h"
#include "text/byte_alphabet.h"

namespace espalier {
namespace {

// A vocabulary of 150,000 tokens with its merges is most of the file; simdjson reads it in a hundredth of the time that
// a tree of nlohmann's takes. Everything else is small and converted into such a tree.
using Element = simdjson::dom::element;
constexpr int kMaxDepth = 64;

/// The file being read, for errors, and the ids of its tokens as written.
struct Reader {
  const std::string& what;
  std::unordered_map<std::string_view, int32_t> ids = {};

  template <class... Args>
  Error bad(fmt::format_string<Args...> format, Args&&... args) const {
    return error(Code::kBadData, "reading {}: {}", what, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  Error unsupported(fmt::format_string<Args...> format, Args&&... args) const {
    return error(Code::kUnsupported, "reading {}: {} is not supported", what,
                 fmt::format(format, std::forward<Args>(args)...));
  }
};

const Json kNull;

/// object[key], or null where it is missing.
const Json& member(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found == object.end() ? kNull : *found;
}

std::string type_of(const Reader& reader, const Json& part, const char* name) {
  if (!part.is_object()) throw reader.bad("\"{}\" is {}; expected an object or null", name, part.type_name());
  return json_get<std::string>(part, "type", fmt::format("{} ({})", reader.what, name));
}

/// The parts of a Sequence, or the part itself.
std::vector<const Json*> sequence(const Reader& reader, const Json& part, const char* name, const char* list) {
  std::vector<const Json*> steps;
  if (part.is_null()) return steps;
  if (type_of(reader, part, name) != "Sequence") return {&part};
  const Json& array = member(part, list);
  if (!array.is_array()) throw reader.bad("\"{}\" is a Sequence without the array \"{}\"", name, list);
  for (const Json& step : array) {
    if (type_of(reader, step, name) == "Sequence") throw reader.unsupported("a Sequence inside a Sequence ({})", name);
    steps.push_back(&step);
  }
  return steps;
}

/// For a message.
std::string shown(Element element) {
  const std::string text = simdjson::minify(element);
  return text.size() > 60 ? text.substr(0, 60) + "..." : text;
}

/// A tree of all but the model's vocabulary and merges.
Json to_json(const Reader& reader, Element element, int depth = 0) {
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

int32_t check_id(const Reader& reader, std::string_view token, std::optional<int64_t> id, const std::string& found) {
  if (!id || *id < 0 || *id >= kMaxVocabulary)
    throw reader.bad("token \"{}\" has the id {}; expected an integer from 0 to {}", token, found, kMaxVocabulary - 1);
  return int32_t(*id);
}

int32_t read_id(const Reader& reader, const Json& value, std::string_view token) {
  const bool fits = value.is_number_integer() && value < kMaxVocabulary;
  return check_id(reader, token, fits ? std::optional(value.get<int64_t>()) : std::nullopt, value.dump());
}

int32_t read_id(const Reader& reader, Element value, std::string_view token) {
  int64_t id;
  if (!value.get(id) && id >= 0 && id < kMaxVocabulary) return int32_t(id);
  return check_id(reader, token, std::nullopt, shown(value));
}

std::vector<AddedToken> read_added_tokens(const Reader& reader, const Json& list) {
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

void add_token(const Reader& reader, Vocabulary& vocabulary, int32_t id, std::string_view text, bool literal) {
  const std::optional<std::string> bytes = chars_to_bytes(text);
  const bool spelled = bytes && (!literal || *bytes == text);
  if (!vocabulary.add(id, spelled ? *bytes : text, spelled ? Vocabulary::kBytes : Vocabulary::kText))
    throw reader.bad("\"{}\" and \"{}\" have the same id {}", vocabulary.text(id), text, id);
}

void read_vocabulary(Reader& reader, Element vocab, const std::vector<AddedToken>& added, Vocabulary& vocabulary) {
  simdjson::dom::object entries;
  if (vocab.get(entries)) throw reader.bad("model.vocab is {}; expected an object", shown(vocab));
  reader.ids.reserve(entries.size() + added.size());
  for (const auto [text, value] : entries)
    if (!reader.ids.emplace(text, read_id(reader, value, text)).second)
      throw reader.bad("model.vocab lists \"{}\" twice", text);
  for (const AddedToken& token : added) {
    const auto found = reader.ids.find(token.content);
    if (found != reader.ids.end() && found->second != token.id)
      throw reader.bad("the added token \"{}\" has the id {}, and {} elsewhere", token.content, token.id,
                       found->second);
    if (vocabulary.has(token.id) && found != reader.ids.end()) continue;  // listed twice, alike
    add_token(reader, vocabulary, token.id, token.content, true);
    if (token.special) vocabulary.set_special(token.id);
    reader.ids.emplace(token.content, token.id);
  }
  for (const auto [text, value] : entries) {
    const int32_t id = read_id(reader, value, text);
    const bool is_added = vocabulary.has(id) && vocabulary.text(id) == text;
    if (!is_added) add_token(reader, vocabulary, id, text, false);
  }
  vocabulary.build_index();
}

/// The two halves of a merge, written "a b" or ["a", "b"].
std::pair<std::string_view, std::string_view> read_merge(const Reader& reader, Element merge) {
  std::string_view text, left, right;
  simdjson::dom::array halves;
  if (!merge.get(text)) {
    const size_t space = text.find(' ');
    if (space != text.npos && text.find(' ', space + 1) == text.npos)
      return {text.substr(0, space), text.substr(space + 1)};
  } else if (!merge.get(halves) && halves.size() == 2 && !halves.at(0).get(left) && !halves.at(1).get(right)) {
    return {left, right};
  }
  throw reader.bad("the merge {} is not two tokens", shown(merge));
}

std::vector<Merge> read_merges(const Reader& reader, Element list) {
  simdjson::dom::array entries;
  if (list.get(entries)) throw reader.bad("model.merges is {}; expected an array", shown(list));
  std::vector<Merge> merges;
  merges.reserve(entries.size());
  const auto id_of = [&](std::string_view token, Element merge) {
    const auto found = reader.ids.find(token);
    if (found == reader.ids.end())
      throw reader.bad("the merge {} needs the token \"{}\", which the vocabulary lacks", shown(merge), token);
    return found->second;
  };
  std::string joined;
  for (const Element merge : entries) {
    const auto [left, right] = read_merge(reader, merge);
    joined.assign(left).append(right);
    merges.push_back({id_of(left, merge), id_of(right, merge), id_of(joined, merge)});
  }
  return merges;
}

/// A large member of the model.
Element model_member(const Reader& reader, Element file, const char* key) {
  Element found;
  if (file["model"][key].get(found)) throw reader.bad("model.{} is missing", key);
  return found;
}

void read_model(Reader& reader, const Json& model, Element file, const std::vector<AddedToken>& added,
                TokenizerParts& parts) {
  if (!model.is_object()) throw reader.bad("\"model\" is {}; expected an object", model.type_name());
  const std::string what = reader.what + " (model)";
  const std::string type = json_get_or<std::string>(model, "type", "BPE", what);  // old files leave it out
  if (type != "BPE") throw reader.unsupported("a tokenizer model of type {}", type);
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (!json_get_or<std::string>(model, affix, "", what).empty()) throw reader.unsupported("model.{}", affix);
  if (json_get_or(model, "byte_fallback", false, what)) throw reader.unsupported("model.byte_fallback");
  if (json_get_or(model, "dropout", 0.0, what) != 0) throw reader.unsupported("model.dropout");
  read_vocabulary(reader, model_member(reader, file, "vocab"), added, parts.vocabulary);
  const std::vector<Merge> merges = read_merges(reader, model_member(reader, file, "merges"));
  parts.ignore_merges = json_get_or(model, "ignore_merges", false, what);

  int32_t byte_ids[256];
  for (int byte = 0; byte < 256; ++byte) {
    const char c = char(byte);
    byte_ids[byte] = parts.vocabulary.find({&c, 1}, Vocabulary::kBytes);
    parts.spells_all_bytes &= byte_ids[byte] >= 0;
  }
  const std::string unknown = json_get_or<std::string>(model, "unk_token", "", what);
  const auto unknown_id = reader.ids.find(unknown);
  if (!unknown.empty() && unknown_id == reader.ids.end())
    throw reader.bad("unk_token \"{}\" is not in the vocabulary", unknown);
  parts.bpe = Bpe(byte_ids, merges, unknown.empty() ? -1 : unknown_id->second,
                  json_get_or(model, "fuse_unk", false, what));
}

PreTokenizer::Step read_split(const Reader& reader, const Json& step) {
  const std::string what = reader.what + " (Split)";
  const Json& pattern = member(step, "pattern");
  if (!pattern.is_object() || !pattern.contains("Regex")) throw reader.unsupported("Split by {}", pattern.dump());
  const std::string behavior = json_get_or<std::string>(step, "behavior", "Isolated", what);
  if (behavior != "Isolated") throw reader.unsupported("Split with behavior {}", behavior);
  if (json_get_or(step, "invert", false, what)) throw reader.unsupported("Split with invert");
  const std::string regex = json_get<std::string>(pattern, "Regex", what);
  if (const SplitPattern* known = find_split_by_regex(regex)) return known;
  return RegexSplitter(regex, reader.what);
}

void read_pre_tokenizer(const Reader& reader, const Json& part, TokenizerParts& parts) {
  std::vector<PreTokenizer::Step> steps;
  bool bytes = false;
  for (const Json* step : sequence(reader, part, "pre_tokenizer", "pretokenizers")) {
    const std::string type = type_of(reader, *step, "pre_tokenizer");
    if (bytes) throw reader.unsupported("the pre-tokenizer {} behind ByteLevel", type);
    const std::string what = reader.what + " (" + type + ")";
    if (type == "ByteLevel") {
      bytes = true;
      parts.add_prefix_space = json_get_or(*step, "add_prefix_space", true, what);
      if (parts.add_prefix_space && !steps.empty())
        throw reader.unsupported("add_prefix_space behind another pre-tokenizer");
      if (json_get_or(*step, "use_regex", true, what)) steps.emplace_back(&kGpt2Split);
    } else if (type == "Split") {
      steps.push_back(read_split(reader, *step));
    } else if (type == "Digits") {
      const bool single = json_get_or(*step, "individual_digits", false, what);
      steps.emplace_back(RegexSplitter(single ? "\\p{N}" : "\\p{N}+", reader.what));
    } else {
      throw reader.unsupported("the pre-tokenizer {}", type);
    }
  }
  if (!bytes) throw reader.unsupported("a pre-tokenizer without ByteLevel");
  parts.pre_tokenizer = PreTokenizer(std::move(steps));
}

int32_t template_token(const Reader& reader, const std::string& name) {
  const auto found = reader.ids.find(name);
  if (found == reader.ids.end()) throw reader.bad("the post-processor names the token \"{}\", which is absent", name);
  return found->second;
}

void read_template(const Reader& reader, const Json& step, TokenizerParts& parts) {
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
int32_t read_pair(const Reader& reader, const Json& pair, const char* key) {
  if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string())
    throw reader.bad("post_processor.{} is not [token, id]", key);
  return template_token(reader, pair[0].get<std::string>());
}

void read_post_processor(const Reader& reader, const Json& part, TokenizerParts& parts) {
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

}  // namespace

TokenizerParts parse_tokenizer_json(std::string_view text, const std::string& what) {
  Reader reader{what};
  simdjson::dom::parser parser;
  Element file;
  if (const auto failure = parser.parse(text.data(), text.size()).get(file)) {
    parse_json(text, what);  // says where it is wrong
    throw reader.bad("not valid JSON: {}", simdjson::error_message(failure));
  }
  const Json json = to_json(reader, file);
  if (!json.is_object()) throw reader.bad("the file holds {}; expected an object", json.type_name());
  const Json& normalizer = member(json, "normalizer");
  if (!normalizer.is_null()) {
    for (const Json* step : sequence(reader, normalizer, "normalizer", "normalizers"))
      throw reader.unsupported("the normalizer {}", type_of(reader, *step, "normalizer"));
  }
  TokenizerParts parts;
  const std::vector<AddedToken> added = read_added_tokens(reader, member(json, "added_tokens"));
  read_model(reader, member(json, "model"), file, added, parts);
  read_pre_tokenizer(reader, member(json, "pre_tokenizer"), parts);
  read_post_processor(reader, member(json, "post_processor"), parts);
  for (const Json* step : sequence(reader, member(json, "decoder"), "decoder", "decoders"))
    if (const std::string type = type_of(reader, *step, "decoder"); type != "ByteLevel")
      throw reader.unsupported("the decoder {}", type);
  parts.added = AddedTokens(added);
  return parts;
}

}  // namespace espalier
