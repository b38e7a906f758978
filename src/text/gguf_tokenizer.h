// The vocabulary of a GGUF file, to and from a tokenizer.json. GGUF has the tokens by id with their types. Kind "gpt2"
// has merges, and the *name* of a pre-tokenizer where tokenizer.json has its rules (text/gguf_pre.h); kind "llama" has
// scores (text/gguf_llama.h). Reading the arrays out of the file is for models/.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace espalier {

struct GgufVocabulary {
  /// tokenizer.ggml.token_type.
  enum Type : int32_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

  std::string model;                ///< "gpt2": byte-level BPE; "llama": SentencePiece's BPE with byte fallback
  std::string pre;                  ///< of gpt2: "gpt-2", "llama-bpe", "qwen2", "smollm", "deepseek-r1-qwen"
  std::vector<std::string> tokens;  ///< by id; of gpt2 in the byte alphabet
  std::vector<int32_t> types;       ///< by id
  std::vector<std::string> merges;  ///< of gpt2: "left right"
  std::vector<float> scores;        ///< of llama, by id: what is merged first
  std::optional<int64_t> bos, eos, pad, unknown;
  bool add_bos = false, add_eos = false;
  bool add_space_prefix = false;  ///< of llama: a text begins with a space
};

/// The tokenizer that gives the ids of the model's own tokenizer.json. `what` names the file in errors: kUnsupported
/// for another model or pre-tokenizer, kBadData for arrays that do not fit each other, tokens that are no UTF-8, merges
/// that name absent tokens, ids out of range.
Tokenizer tokenizer_of(const GgufVocabulary& vocabulary, const std::string& what);

/// The inverse, with `vocab_size` tokens: ids without one get unused tokens "[PAD7]". Error kUnsupported naming what
/// GGUF cannot say (another kind of model, rules that have no name, merges that follow from no scores), kMismatch where
/// there are more tokens than that. Of kind llama the order of merges that make the same token is not kept.
GgufVocabulary vocabulary_of(const Tokenizer& tokenizer, int64_t vocab_size, const std::string& what);

}  // namespace espalier
