// Parts of a tokenizer.json made from a GGUF vocabulary, for both kinds; written by hand where there is an entry for
// each token or merge.
#pragma once
#include <string>
#include <vector>

#include "text/gguf_tokenizer.h"

namespace espalier {

/// U+2581, which stands for a space in vocabularies of kind "llama".
inline constexpr const char* kSpaceMark = "\u2581";

/// Throws the Error of arrays that do not fit each other, tokens that are no UTF-8, scores that are not finite, ids
/// outside.
void check_vocabulary(const GgufVocabulary& vocabulary, const std::string& what);

GgufVocabulary::Type gguf_token_type(const GgufVocabulary& vocabulary, size_t id);

/// Appends a JSON string. The text is UTF-8.
void append_json(std::string& out, std::string_view text);

/// {"token":id,...} without unused rows. `tokens` are those of the vocabulary, or how tokenizer.json writes them.
std::string gguf_vocabulary_json(const GgufVocabulary& vocabulary, const std::vector<std::string>& tokens);

/// Control, user-defined and unknown tokens: found in the raw text.
std::string gguf_added_json(const GgufVocabulary& vocabulary, const std::vector<std::string>& tokens);

/// Puts BOS before the text and EOS behind it, where the file asks for them; "null" where it does not.
std::string gguf_post_processor_json(const GgufVocabulary& vocabulary);

/// The tokenizer.json of a vocabulary that was checked: of kind "gpt2" (gguf_tokenizer.cc), of kind "llama"
/// (gguf_llama.cc).
std::string gguf_gpt2_json(const GgufVocabulary& vocabulary, const std::string& what);
std::string gguf_llama_json(const GgufVocabulary& vocabulary, const std::string& what);

}  // namespace espalier
