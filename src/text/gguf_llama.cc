#include "text/gguf_llama.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "text/gguf_tokenizer_json.h"
#include "text/utf8.h"

namespace espalier {
namespace {

using Type = GgufVocabulary::Type;

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size()) text.replace(at, from.size(), to);
  return text;
}

bool is_merged(Type type) { return type == Type::kNormal || type == Type::kUserDefined; }

// Longer tokens are found in the raw text or never; a limit on the length bounds the work for a file that lies.
constexpr size_t kLongestMerged = 512;

/// Merges with what orders them.
struct Candidate {
  float score;
  uint32_t left_chars, right_chars;
  ScoredMerge merge;

  bool operator<(const Candidate& other) const {
    if (score != other.score) return score > other.score;
    if (left_chars != other.left_chars) return left_chars > other.left_chars;
    if (right_chars != other.right_chars) return right_chars > other.right_chars;
    return merge.result < other.merge.result;
  }
};

uint32_t characters(std::string_view text) {
  return uint32_t(std::count_if(text.begin(), text.end(), [](char c) { return (uint8_t(c) & 0xC0) != 0x80; }));
}

std::string merges_json(const std::vector<std::string>& tokens, const std::vector<ScoredMerge>& merges) {
  std::string text = "[";
  for (const ScoredMerge& merge : merges) {
    text += text.size() > 1 ? ",[" : "[";
    append_json(text, tokens[size_t(merge.left)]);
    text += ',';
    append_json(text, tokens[size_t(merge.right)]);
    text += ']';
  }
  return text + "]";
}

}  // namespace

float llama_merge_score(const GgufVocabulary& v, size_t id) {
  return gguf_token_type(v, id) == Type::kUserDefined ? 0.0f : v.scores[id];
}

std::vector<std::string> llama_tokens(const GgufVocabulary& v) {
  std::vector<std::string> tokens = v.tokens;
  for (size_t id = 0; id < tokens.size(); ++id)
    if (gguf_token_type(v, id) == Type::kUserDefined) tokens[id] = replaced(tokens[id], " ", kSpaceMark);
  return tokens;
}

std::vector<ScoredMerge> llama_merges(const GgufVocabulary& v, const std::vector<std::string>& tokens,
                                      const std::string& what) {
  std::unordered_map<std::string_view, int32_t> ids;
  size_t bytes = 0, merge_bytes = 0;
  for (size_t id = 0; id < tokens.size(); ++id) {
    bytes += tokens[id].size();
    if (gguf_token_type(v, id) != Type::kUnused) ids.emplace(tokens[id], int32_t(id));
  }
  std::vector<Candidate> candidates;
  for (size_t id = 0; id < tokens.size(); ++id) {
    const std::string_view token = tokens[id];
    if (!is_merged(gguf_token_type(v, id)) || token.size() > kLongestMerged) continue;
    for (size_t cut = 1; cut < token.size(); ++cut) {
      if ((uint8_t(token[cut]) & 0xC0) == 0x80) continue;
      const auto left = ids.find(token.substr(0, cut)), right = ids.find(token.substr(cut));
      if (left == ids.end() || right == ids.end()) continue;
      candidates.push_back({llama_merge_score(v, id), characters(left->first), characters(right->first),
                            {left->second, right->second, int32_t(id)}});
      merge_bytes += token.size() + sizeof(Candidate);
    }
    if (merge_bytes > (size_t{1} << 20) + 64 * (bytes + tokens.size()))
      throw error(Code::kBadData, "reading {}: its {} tokens can be made of each other in more than {} ways; a "
                  "vocabulary has two or three a token", what, tokens.size(), candidates.size());
  }
  std::sort(candidates.begin(), candidates.end());
  std::vector<ScoredMerge> merges;
  merges.reserve(candidates.size());
  for (const Candidate& candidate : candidates) merges.push_back(candidate.merge);
  return merges;
}

std::string gguf_llama_json(const GgufVocabulary& v, const std::string& what) {
  const std::vector<std::string> tokens = llama_tokens(v);
  const std::string replace =
      fmt::format(R"({{"type":"Replace","pattern":{{"String":" "}},"content":"{}"}})", kSpaceMark);
  const std::string normalizer =
      v.add_space_prefix
          ? fmt::format(R"({{"type":"Sequence","normalizers":[{{"type":"Prepend","prepend":"{}"}},{}]}})", kSpaceMark,
                        replace)
          : replace;
  const std::string strip = v.add_space_prefix ? R"(,{"type":"Strip","content":" ","start":1,"stop":0})" : "";
  std::string unknown = "null";
  if (v.unknown) {
    unknown.clear();
    append_json(unknown, tokens[size_t(*v.unknown)]);
  }
  return fmt::format(
      R"({{"version":"1.0","truncation":null,"padding":null,"added_tokens":{},"normalizer":{},"pre_tokenizer":null,)"
      R"("post_processor":{},"decoder":{{"type":"Sequence","decoders":[{{"type":"Replace","pattern":{{"String":"{}"}},)"
      R"("content":" "}},{{"type":"ByteFallback"}},{{"type":"Fuse"}}{}]}},"model":{{"type":"BPE","dropout":null,)"
      R"("unk_token":{},"continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":true,)"
      R"("byte_fallback":true,"ignore_merges":false,"vocab":{},"merges":{}}}}})",
      gguf_added_json(v, tokens), normalizer, gguf_post_processor_json(v), kSpaceMark, strip, unknown,
      gguf_vocabulary_json(v, tokens), merges_json(tokens, llama_merges(v, tokens, what)));
}

}  // namespace espalier
