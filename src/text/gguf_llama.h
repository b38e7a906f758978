// GGUF vocabularies of kind "llama": SentencePiece's BPE, whose tokens have scores where tokenizer.json has merges. Two
// neighbours become the token that they spell, the one with the highest score first; so each way to cut a token into
// two others is a merge, in the order of scores. Of equal scores (user-defined tokens) the merge with the longer left
// half comes first, then that with the longer right half, as transformers orders them.
//
// What tokenizer.json writes otherwise: a space is U+2581 in all tokens, while GGUF files write user-defined tokens as
// the text that they match; and user-defined tokens, whose scores say nothing (-1000 by convention), come first of all.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "text/gguf_tokenizer.h"

namespace espalier {

/// A merge of two tokens, as their places in the list of tokens.
struct ScoredMerge {
  int32_t left, right, result;
};

/// The tokens of a vocabulary of this kind as tokenizer.json writes them.
std::vector<std::string> llama_tokens(const GgufVocabulary& vocabulary);

/// The merges of such tokens, best first. Error kBadData naming `what` where they would take far more memory than the
/// tokens: no vocabulary in use does.
std::vector<ScoredMerge> llama_merges(const GgufVocabulary& vocabulary, const std::vector<std::string>& tokens,
                                      const std::string& what);

/// The score by which a token's merges are ordered.
float llama_merge_score(const GgufVocabulary& vocabulary, size_t id);

}  // namespace espalier
