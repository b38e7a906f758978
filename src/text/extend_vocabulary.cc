#include "text/extend_vocabulary.h"

#include <optional>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/json_value.h"
#include "text/utf8.h"

namespace espalier {
namespace {

constexpr size_t kMostTokens = 65'536;
constexpr size_t kMostBytes = 1024;

void check_names(const Tokenizer& tokenizer, std::span<const std::string> names) {
  if (names.size() > kMostTokens || tokenizer.vocab_size() + int64_t(names.size()) > INT32_MAX)
    throw error(Code::kUsage, "adding {} tokens to a vocabulary of {}: at most {} at once, and 2^31 in all, fit",
                names.size(), tokenizer.vocab_size(), kMostTokens);
  std::set<std::string_view> seen;
  for (const std::string& name : names) {
    if (name.empty())
      throw error(Code::kUsage, "adding tokens: one of the names is empty; expected \"<act>\" or the like");
    if (!is_utf8(name) || name.size() > kMostBytes)
      throw error(Code::kUsage, "adding tokens: a name of {} bytes is no UTF-8 of at most {}", name.size(), kMostBytes);
    if (!seen.insert(name).second) throw error(Code::kUsage, "adding tokens: '{}' is named twice", name);
    if (const auto id = tokenizer.id_of(name))
      throw error(Code::kUsage, "adding tokens: '{}' is token {} of this tokenizer already; leave it out", name, *id);
  }
}

constexpr const char* kSpace = " \t\r\n";

struct Range {
  size_t begin, end;
};

/// Where the string that begins at `at` ends: behind its closing quote.
size_t string_end(std::string_view json, size_t at) {
  for (++at; json[at] != '"'; ++at) at += json[at] == '\\';
  return at + 1;
}

/// Where in the text of a JSON object the value under `key` of the outermost level stands; nothing where there is no
/// such key. The text is known to be well-formed.
std::optional<Range> value_of(std::string_view json, std::string_view key) {
  size_t at = json.find('{') + 1;
  for (;;) {
    at = json.find_first_not_of(", \t\r\n", at);
    if (json[at] == '}') return std::nullopt;
    const size_t name_end = string_end(json, at);
    const bool found = json.substr(at + 1, name_end - at - 2) == key;
    const size_t begin = json.find_first_not_of(kSpace, json.find(':', name_end) + 1);
    int depth = 0;
    for (at = begin;;) {
      const char c = json[at];
      if (depth == 0 && (c == ',' || c == '}')) break;
      depth += (c == '{' || c == '[') - (c == '}' || c == ']');
      at = c == '"' ? string_end(json, at) : at + 1;
    }
    if (found) return Range{begin, json.find_last_not_of(kSpace, at - 1) + 1};
  }
}

std::string entries(std::span<const std::string> names, int64_t first_id) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i)
    text += fmt::format("{}\n    {{\"id\": {}, \"content\": {}, \"single_word\": false, \"lstrip\": false, "
                        "\"rstrip\": false, \"normalized\": false, \"special\": true}}",
                        i ? "," : "", first_id + int64_t(i), Json(names[i]).dump());
  return text;
}

}  // namespace

Tokenizer with_added_tokens(const Tokenizer& tokenizer, std::span<const std::string> names) {
  check_names(tokenizer, names);
  if (names.empty()) return tokenizer;
  std::string json = tokenizer.to_json();
  const std::string added = entries(names, tokenizer.vocab_size());
  const std::optional<Range> list = value_of(json, "added_tokens");
  if (!list) {
    json.insert(json.find('{') + 1, "\n  \"added_tokens\": [" + added + "\n  ],");
  } else if (json[list->begin] != '[') {  // null
    json.replace(list->begin, list->end - list->begin, "[" + added + "\n  ]");
  } else {
    const size_t last = json.find_last_not_of(kSpace, list->end - 2);
    json.insert(last + 1, (json[last] == '[' ? "" : ",") + added);
  }
  Tokenizer grown = Tokenizer::from_json(json, "the tokenizer with new tokens",
                                         {.bos = tokenizer.bos(), .eos = tokenizer.eos(), .pad = tokenizer.pad()});
  const int64_t size = tokenizer.vocab_size() + int64_t(names.size());
  if (grown.vocab_size() != size || grown.id_of(names.back()) != int32_t(size - 1))
    throw error(Code::kUnsupported, "adding tokens: this tokenizer.json does not take them as its last ones; write its "
                "\"added_tokens\" as the `tokenizers` library does");
  return grown;
}

}  // namespace espalier
