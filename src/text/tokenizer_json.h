// tokenizer.json, the Hugging Face format, read into parts. What the file asks for and we do not do is an Error that
// names it: another normalizer, pre-tokenizer, model or decoder is a new case in tokenizer_json.cc.
//
// Read: model BPE (merges as "a b" or ["a", "b"]; unk_token, fuse_unk, ignore_merges), pre_tokenizer ByteLevel, Split
// (Regex, Isolated), Digits and a Sequence of them that ends in ByteLevel, post_processor ByteLevel,
// TemplateProcessing, RobertaProcessing, BertProcessing and Sequences of them, decoder ByteLevel, added_tokens with
// all options. Not applied, as in transformers: truncation and padding.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/pre_tokenizer.h"
#include "text/vocabulary.h"

namespace espalier {

struct TokenizerParts {
  Vocabulary vocabulary;  ///< added tokens included, index built
  Bpe bpe;
  PreTokenizer pre_tokenizer;
  AddedTokens added;
  bool add_prefix_space = false;  ///< a segment that does not start with a space gets one
  bool ignore_merges = false;     ///< a piece that is a token is that token, whatever the merges say
  bool spells_all_bytes = true;   ///< each byte has a token, so that decoding gives the text back
  std::vector<int32_t> prefix, suffix;  ///< what add_special puts around a text
};

/// Reads the text of a tokenizer.json. `what` names it in errors (kBadData, kUnsupported).
TokenizerParts parse_tokenizer_json(std::string_view json, const std::string& what);

/// What a byte-level tokenizer.json is made of when we write one.
struct ByteLevelModel {
  const SplitPattern* pattern = nullptr;
  std::vector<std::string> tokens;  ///< as written, by id
  std::vector<Merge> merges;
  std::vector<std::string> special_tokens;  ///< a subset of tokens
};

/// The text of a tokenizer.json that this program and the `tokenizers` library read alike.
std::string write_tokenizer_json(const ByteLevelModel& model);

}  // namespace espalier
