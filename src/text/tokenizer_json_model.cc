#include "text/tokenizer_json_model.h"

#include <algorithm>

#include <simdjson.h>

#include "base/json_value.h"
#include "text/byte_alphabet.h"
#include "text/utf8.h"

namespace espalier {
namespace {

using Element = simdjson::dom::element;

/// For a message.
std::string shown(Element element) {
  const std::string text = simdjson::minify(element);
  return text.size() > 60 ? text.substr(0, 60) + "..." : text;
}

int32_t read_id(const JsonReader& reader, Element value, std::string_view token) {
  int64_t id;
  if (!value.get(id) && id >= 0 && id < kMaxVocabulary) return int32_t(id);
  throw bad_id(reader, token, shown(value));
}

/// Which tokens stand for bytes that are written in the byte alphabet: those of a byte-level model.
void add_token(const JsonReader& reader, TokenizerParts& parts, int32_t id, std::string_view text, bool literal) {
  const std::optional<std::string> bytes = parts.byte_level ? chars_to_bytes(text) : std::nullopt;
  const bool spelled = bytes && (!literal || *bytes == text);
  Vocabulary& vocabulary = parts.vocabulary;
  if (!vocabulary.add(id, spelled ? *bytes : text, spelled ? Vocabulary::kBytes : Vocabulary::kText))
    throw reader.bad("\"{}\" and \"{}\" have the same id {}", vocabulary.text(id), text, id);
}

/// The added tokens, before those of the model.
void add_added(JsonReader& reader, const std::vector<AddedToken>& added, TokenizerParts& parts) {
  for (const AddedToken& token : added) {
    const auto found = reader.ids.find(token.content);
    if (found != reader.ids.end() && found->second != token.id)
      throw reader.bad("the added token \"{}\" has the id {}, and {} elsewhere", token.content, token.id,
                       found->second);
    if (parts.vocabulary.has(token.id) && found != reader.ids.end()) continue;  // listed twice, alike
    add_token(reader, parts, token.id, token.content, true);
    if (token.special) parts.vocabulary.set_special(token.id);
    if (found == reader.ids.end()) parts.vocabulary.set_outside(token.id);
    reader.ids.emplace(token.content, token.id);
  }
}

void add_model_token(const JsonReader& reader, int32_t id, std::string_view text, TokenizerParts& parts) {
  const bool is_added = parts.vocabulary.has(id) && parts.vocabulary.text(id) == text;
  if (!is_added) add_token(reader, parts, id, text, false);
}

void read_vocabulary(JsonReader& reader, Element vocab, const std::vector<AddedToken>& added, TokenizerParts& parts) {
  simdjson::dom::object entries;
  if (vocab.get(entries)) throw reader.bad("model.vocab is {}; expected an object", shown(vocab));
  reader.ids.reserve(entries.size() + added.size());
  for (const auto [text, value] : entries)
    if (!reader.ids.emplace(text, read_id(reader, value, text)).second)
      throw reader.bad("model.vocab lists \"{}\" twice", text);
  add_added(reader, added, parts);
  for (const auto [text, value] : entries) add_model_token(reader, read_id(reader, value, text), text, parts);
  parts.vocabulary.build_index();
}

/// The two halves of a merge, written "a b" or ["a", "b"].
std::pair<std::string_view, std::string_view> read_merge(const JsonReader& reader, Element merge) {
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

std::vector<Merge> read_merges(const JsonReader& reader, Element list) {
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
Element model_member(const JsonReader& reader, Element file, const char* key) {
  Element found;
  if (file["model"][key].get(found)) throw reader.bad("model.{} is missing", key);
  return found;
}

/// The tokens that pieces of a byte-level model start as.
void read_byte_alphabet(const TokenizerParts& parts, BpeAlphabet& alphabet) {
  for (int byte = 0; byte < 256; ++byte) {
    const char c = char(byte);
    alphabet.byte_ids[size_t(byte)] = parts.vocabulary.find({&c, 1}, Vocabulary::kBytes);
  }
}

/// The tokens that pieces of other models start as: characters, and bytes "<0xE4>" for those without a token.
void read_char_alphabet(const TokenizerParts& parts, bool byte_fallback, BpeAlphabet& alphabet) {
  const Vocabulary& vocabulary = parts.vocabulary;
  alphabet.of_chars = true;
  for (int32_t id = 0; id < int32_t(vocabulary.size()); ++id) {
    const std::string_view text = vocabulary.bytes(id);
    if (text.empty() || vocabulary.outside(id)) continue;
    int length;
    const uint32_t c = utf8_decode(reinterpret_cast<const uint8_t*>(text.data()), length);
    if (size_t(length) == text.size()) alphabet.char_ids.set(c, id);
  }
  if (!byte_fallback) return;
  for (int byte = 0; byte < 256; ++byte)
    alphabet.byte_ids[size_t(byte)] =
        vocabulary.find(fmt::format("<0x{:02X}>", byte), Vocabulary::kText, Vocabulary::kOfModel);
}

void read_bpe(JsonReader& reader, const Json& model, Element file, const std::vector<AddedToken>& added,
              TokenizerParts& parts) {
  const std::string what = reader.what + " (model)";
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (!json_get_or<std::string>(model, affix, "", what).empty()) throw reader.unsupported("model.{}", affix);
  if (json_get_or(model, "dropout", 0.0, what) != 0) throw reader.unsupported("model.dropout");
  read_vocabulary(reader, model_member(reader, file, "vocab"), added, parts);
  const std::vector<Merge> merges = read_merges(reader, model_member(reader, file, "merges"));
  parts.ignore_merges = json_get_or(model, "ignore_merges", false, what);

  BpeAlphabet alphabet;
  const bool byte_fallback = json_get_or(model, "byte_fallback", false, what);
  if (parts.byte_level) {
    read_byte_alphabet(parts, alphabet);
    const bool complete = std::count(alphabet.byte_ids.begin(), alphabet.byte_ids.end(), -1) == 0;
    if (byte_fallback && !complete) throw reader.unsupported("model.byte_fallback with bytes that have no token");
  } else {
    read_char_alphabet(parts, byte_fallback, alphabet);
  }
  const std::string unknown = json_get_or<std::string>(model, "unk_token", "", what);
  const auto unknown_id = reader.ids.find(unknown);
  if (!unknown.empty() && unknown_id == reader.ids.end())
    throw reader.bad("unk_token \"{}\" is not in the vocabulary", unknown);
  if (!unknown.empty()) alphabet.unknown = unknown_id->second;
  alphabet.fuse_unknown = json_get_or(model, "fuse_unk", false, what);
  parts.bpe = Bpe(std::move(alphabet), merges);
}

/// The tokens of a Unigram model and their scores, [["<unk>", 0.0], ...], by id.
Unigram::Pieces read_pieces(const JsonReader& reader, Element vocab) {
  simdjson::dom::array entries;
  if (vocab.get(entries)) throw reader.bad("model.vocab is {}; expected an array", shown(vocab));
  Unigram::Pieces pieces;
  for (const Element entry : entries) {
    std::string_view token;
    double score;
    simdjson::dom::array pair;
    if (entry.get(pair) || pair.size() != 2 || pair.at(0).get(token) || pair.at(1).get(score))
      throw reader.bad("model.vocab has the entry {}; expected [token, score]", shown(entry));
    pieces.emplace_back(token, score);
  }
  if (int64_t(pieces.size()) > kMaxVocabulary)
    throw reader.bad("model.vocab has {} tokens; at most {} are read", pieces.size(), kMaxVocabulary);
  return pieces;
}

void read_unigram(JsonReader& reader, const Json& model, Element file, const std::vector<AddedToken>& added,
                  TokenizerParts& parts) {
  const std::string what = reader.what + " (model)";
  if (parts.byte_level) throw reader.unsupported("a Unigram model of bytes (ByteLevel)");
  const Unigram::Pieces pieces = read_pieces(reader, model_member(reader, file, "vocab"));
  const auto unknown = json_get_or<int64_t>(model, "unk_id", -1, what);
  if (unknown >= int64_t(pieces.size()) || unknown < -1)
    throw reader.bad("model.unk_id is {}; expected 0 to {}", unknown, int64_t(pieces.size()) - 1);
  for (size_t id = 0; id < pieces.size(); ++id) reader.ids[pieces[id].first] = int32_t(id);
  add_added(reader, added, parts);
  for (size_t id = 0; id < pieces.size(); ++id) add_model_token(reader, int32_t(id), pieces[id].first, parts);
  parts.vocabulary.build_index();
  parts.unigram = Unigram(pieces, int32_t(unknown), json_get_or(model, "byte_fallback", false, what));
  parts.is_unigram = true;
}

}  // namespace

void read_model(JsonReader& reader, const Json& model, const Element& file, const std::vector<AddedToken>& added,
                TokenizerParts& parts) {
  if (!model.is_object()) throw reader.bad("\"model\" is {}; expected an object", model.type_name());
  // Old files leave the type out.
  const std::string type = json_get_or<std::string>(model, "type", "BPE", reader.what + " (model)");
  if (type == "BPE") {
    read_bpe(reader, model, file, added, parts);
  } else if (type == "Unigram") {
    read_unigram(reader, model, file, added, parts);
  } else {
    throw reader.unsupported("a tokenizer model of type {}", type);
  }
}

}  // namespace espalier
