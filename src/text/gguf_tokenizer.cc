#include "text/gguf_tokenizer.h"

#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "base/json_value.h"
#include "text/gguf_pre.h"
#include "text/gguf_tokenizer_json.h"
#include "text/utf8.h"
#include "text/vocabulary.h"

namespace espalier {
namespace {

void check_ids(const GgufVocabulary& v, const std::string& what) {
  for (const auto& [id, key] : {std::pair{v.bos, "bos"}, std::pair{v.eos, "eos"}, std::pair{v.pad, "padding"},
                                std::pair{v.unknown, "unknown"}})
    if (id && (*id < 0 || *id >= int64_t(v.tokens.size())))
      throw error(Code::kBadData, "reading {}: metadata 'tokenizer.ggml.{}_token_id' is {}; expected 0 to {}", what,
                  key, *id, int64_t(v.tokens.size()) - 1);
}

void check_scores(const GgufVocabulary& v, const std::string& what) {
  if (v.model != "llama") return;
  if (v.scores.size() != v.tokens.size())
    throw error(Code::kBadData, "reading {}: {} tokens and {} scores (metadata 'tokenizer.ggml.scores'); expected as "
                "many", what, v.tokens.size(), v.scores.size());
  for (size_t id = 0; id < v.scores.size(); ++id)
    if (!std::isfinite(v.scores[id]))
      throw error(Code::kBadData, "reading {}: the score of token {} is {}; expected a finite number", what, id,
                  v.scores[id]);
}

std::string merges_json(const GgufVocabulary& v, const std::string& what) {
  std::string text = "[";
  for (const std::string& merge : v.merges) {
    if (!is_utf8(merge)) throw error(Code::kBadData, "reading {}: a merge is no UTF-8", what);
    if (text.size() > 1) text += ',';
    append_json(text, merge);
  }
  return text + "]";
}

std::optional<int32_t> narrow(std::optional<int64_t> id) { return id ? std::optional(int32_t(*id)) : std::nullopt; }

}  // namespace

void check_vocabulary(const GgufVocabulary& v, const std::string& what) {
  if (v.model != "gpt2" && v.model != "llama")
    throw error(Code::kUnsupported, "reading {}: metadata 'tokenizer.ggml.model' is '{}'; the kinds known are gpt2 and "
                "llama", what, v.model);
  if (int64_t(v.tokens.size()) > kMaxVocabulary)
    throw error(Code::kBadData, "reading {}: {} tokens; at most {} are read", what, v.tokens.size(), kMaxVocabulary);
  if (!v.types.empty() && v.types.size() != v.tokens.size())
    throw error(Code::kBadData, "reading {}: {} tokens and {} token types; expected as many", what, v.tokens.size(),
                v.types.size());
  for (size_t id = 0; id < v.types.size(); ++id)
    if (v.types[id] < GgufVocabulary::kNormal || v.types[id] > GgufVocabulary::kByte)
      throw error(Code::kBadData, "reading {}: the type of token {} is {} (metadata 'tokenizer.ggml.token_type'); "
                  "expected 1 to 6", what, id, v.types[id]);
  for (size_t id = 0; id < v.tokens.size(); ++id)
    if (!is_utf8(v.tokens[id])) throw error(Code::kBadData, "reading {}: token {} is no UTF-8", what, id);
  check_ids(v, what);
  check_scores(v, what);
}

std::string gguf_gpt2_json(const GgufVocabulary& v, const std::string& what) {
  const GgufPre& pre = find_gguf_pre(v.pre, what);
  return fmt::format(
      R"({{"version":"1.0","truncation":null,"padding":null,"added_tokens":{},"normalizer":{},"pre_tokenizer":{},)"
      R"("post_processor":{},"decoder":{{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,)"
      R"("use_regex":true}},"model":{{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,)"
      R"("end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,"ignore_merges":{},"vocab":{},)"
      R"("merges":{}}}}})",
      gguf_added_json(v, v.tokens), normalizer_json(pre).dump(), pre_tokenizer_json(pre).dump(),
      gguf_post_processor_json(v), pre.ignore_merges, gguf_vocabulary_json(v, v.tokens), merges_json(v, what));
}

Tokenizer tokenizer_of(const GgufVocabulary& v, const std::string& what) {
  check_vocabulary(v, what);
  return Tokenizer::from_json(v.model == "llama" ? gguf_llama_json(v, what) : gguf_gpt2_json(v, what),
                              "the tokenizer of " + what,
                              SpecialIds{.bos = narrow(v.bos), .eos = narrow(v.eos), .pad = narrow(v.pad)});
}

}  // namespace espalier
