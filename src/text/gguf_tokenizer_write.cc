// From a tokenizer to the vocabulary of a GGUF file; the other way is gguf_tokenizer.cc.
#include <algorithm>
#include <set>
#include <unordered_map>

#include "base/error.h"
#include "base/json.h"
#include "base/json_value.h"
#include "text/gguf_llama.h"
#include "text/gguf_pre.h"
#include "text/gguf_tokenizer.h"
#include "text/gguf_tokenizer_json.h"

namespace espalier {
namespace {

using Type = GgufVocabulary::Type;

// As llama.cpp's converter writes it; it stands for nothing.
constexpr float kUserDefinedScore = -1000.0f;

struct Source {
  const Tokenizer& tokenizer;
  const Json json;
  const std::string& what;

  const Json& part(const char* key) const {
    static const Json null;
    const auto found = json.find(key);
    return found == json.end() ? null : *found;
  }
  Error unsupported(const char* part_name) const {
    return error(Code::kUnsupported, "writing the tokenizer of {}: GGUF has no name for its {} {}", what, part_name,
                 part(part_name).dump());
  }
};

/// The two halves of a merge, written "a b" or ["a", "b"].
std::pair<std::string, std::string> halves(const Json& merge) {
  if (!merge.is_string()) return {merge.at(0).get<std::string>(), merge.at(1).get<std::string>()};
  const auto text = merge.get<std::string>();
  const size_t space = text.find(' ');
  return {text.substr(0, space), text.substr(space + 1)};
}

std::string find_pre_name(const Source& source) {
  const std::string rules = pre_tokenizer_rules(source.part("pre_tokenizer"));
  const bool ignore_merges = source.part("model").value("ignore_merges", false);
  bool known = false;
  for (const GgufPre& row : gguf_pres()) {
    if (pre_tokenizer_rules(pre_tokenizer_json(row)) != rules || row.ignore_merges != ignore_merges) continue;
    if (normalizer_json(row) == source.part("normalizer")) return row.name;
    known = true;
  }
  throw source.unsupported(known ? "normalizer" : "pre_tokenizer");
}

/// Whether a text begins with a space that it does not have; error where the rules are none of kind "llama".
bool adds_space_prefix(const Source& source) {
  const Json replace = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpaceMark}};
  const Json prepend = {{"type", "Prepend"}, {"prepend", kSpaceMark}};
  const Json& normalizer = source.part("normalizer");
  // Behind that normalizer no space is left to split at: Gemma's files have this step all the same.
  const Json& pre = source.part("pre_tokenizer");
  const bool splits_spaces = pre.is_object() && pre.value("type", "") == "Split" &&
                             pre.value("pattern", Json()) == Json{{"String", " "}};
  if (!pre.is_null() && !splits_spaces) throw source.unsupported("pre_tokenizer");
  if (normalizer == replace) return false;
  if (normalizer == Json{{"type", "Sequence"}, {"normalizers", {prepend, replace}}}) return true;
  throw source.unsupported("normalizer");
}

bool is_byte_token(std::string_view text) {
  return text.size() == 6 && text.starts_with("<0x") && text.ends_with('>') &&
         std::all_of(text.begin() + 3, text.begin() + 5,
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F'); });
}

/// Tokens and types; what has no token becomes an unused one.
void put_tokens(const Source& source, int64_t vocab_size, GgufVocabulary& v) {
  const Tokenizer& tokenizer = source.tokenizer;
  if (tokenizer.vocab_size() > vocab_size)
    throw error(Code::kMismatch, "writing the tokenizer of {}: it has {} tokens, the model {}", source.what,
                tokenizer.vocab_size(), vocab_size);
  std::unordered_map<int64_t, bool> added;  // id to whether it is special
  if (source.part("added_tokens").is_array())
    for (const Json& token : source.part("added_tokens"))
      added.emplace(token.value("id", int64_t{-1}), token.value("special", false));
  for (int64_t id = 0; id < vocab_size; ++id) {
    std::string text = tokenizer.token_text(int32_t(id));
    const auto found = added.find(id);
    Type type = Type::kNormal;
    if (found != added.end()) {
      type = found->second ? Type::kControl : Type::kUserDefined;
    } else if (text.empty()) {
      type = Type::kUnused;
      text = fmt::format("[PAD{}]", id);
    } else if (v.model == "llama" && is_byte_token(text)) {
      type = Type::kByte;
    }
    v.types.push_back(type);
    v.tokens.push_back(std::move(text));
  }
}

/// Scores in the order in which the merges make tokens; then looks whether the scores say the same as the merges.
void put_scores(const Source& source, GgufVocabulary& v) {
  const std::vector<std::string> written = v.tokens;
  std::unordered_map<std::string_view, int32_t> ids;
  for (size_t id = 0; id < written.size(); ++id) ids.emplace(written[id], int32_t(id));
  constexpr float kUnset = 1;
  std::vector<float> scores(written.size(), kUnset);
  std::vector<std::array<int32_t, 3>> merges;
  float next = 0;
  for (const Json& merge : source.part("model").at("merges")) {
    const auto [left, right] = halves(merge);
    const int32_t result = ids.at(left + right);
    merges.push_back({ids.at(left), ids.at(right), result});
    float& score = scores[size_t(result)];
    if (score == kUnset) score = v.types[size_t(result)] == Type::kNormal ? next-- : 0;
  }
  for (size_t id = 0; id < written.size(); ++id) {
    const bool user_defined = v.types[id] == Type::kUserDefined;
    v.scores.push_back(user_defined ? kUserDefinedScore : scores[id] != kUnset ? scores[id] : next);
    if (user_defined)
      for (size_t at = 0; (at = v.tokens[id].find(kSpaceMark, at)) != std::string::npos; ++at)
        v.tokens[id].replace(at, std::string_view(kSpaceMark).size(), " ");
  }
  const auto falls = std::is_sorted(merges.begin(), merges.end(), [&](const auto& a, const auto& b) {
    return scores[size_t(a[2])] > scores[size_t(b[2])];
  });
  std::vector<std::array<int32_t, 3>> implied;
  for (const ScoredMerge& merge : llama_merges(v, llama_tokens(v), source.what))
    implied.push_back({merge.left, merge.right, merge.result});
  std::sort(implied.begin(), implied.end());
  std::sort(merges.begin(), merges.end());
  if (!falls || implied != merges)
    throw error(Code::kUnsupported, "writing the tokenizer of {}: GGUF's kind llama has scores and no merges, and no "
                "scores give its {} merges", source.what, merges.size());
}

}  // namespace

GgufVocabulary vocabulary_of(const Tokenizer& tokenizer, int64_t vocab_size, const std::string& what) {
  const Source source{tokenizer, parse_json(tokenizer.to_json(), "the tokenizer of " + what), what};
  const Json& model = source.part("model");
  if (model.value("type", "BPE") != "BPE")
    throw error(Code::kUnsupported, "writing the tokenizer of {}: its model is {}; GGUF files written here hold BPE",
                what, model.value("type", ""));
  GgufVocabulary v{.bos = tokenizer.bos(), .eos = tokenizer.eos(), .pad = tokenizer.pad()};
  v.model = model.value("byte_fallback", false) ? "llama" : "gpt2";
  if (v.model == "llama") {
    v.add_space_prefix = adds_space_prefix(source);
  } else {
    v.pre = find_pre_name(source);
  }
  put_tokens(source, vocab_size, v);
  const auto unknown = model.find("unk_token");
  if (unknown != model.end() && unknown->is_string()) v.unknown = tokenizer.id_of(unknown->get<std::string>());
  if (v.model == "llama") {
    if (v.unknown && v.types[size_t(*v.unknown)] == Type::kControl) v.types[size_t(*v.unknown)] = Type::kUnknown;
    put_scores(source, v);
  } else {
    for (const Json& merge : model.at("merges")) {
      const auto [left, right] = halves(merge);
      v.merges.push_back(left + " " + right);
    }
  }
  const std::vector<int32_t> around = tokenizer.encode("", {.add_special = true});
  v.add_bos = v.bos && !around.empty() && around.front() == *v.bos;
  v.add_eos = v.eos && around.size() > size_t(v.add_bos) && around.back() == *v.eos;
  return v;
}

}  // namespace espalier
