// tokenizer.json, the Hugging Face format, read into parts. What the file asks for and we do not do is an Error that
// names it: another normalizer, pre-tokenizer or decoder is a new row in tokenizer_json_steps.cc.
//
// Read:
//  - model BPE (merges as "a b" or ["a", "b"]; unk_token, fuse_unk, byte_fallback, ignore_merges), Unigram;
//  - normalizers Replace, Prepend, NFC, NFD, NFKC, NFKD, Lowercase, Strip, StripAccents, Nmt, Precompiled,
//    BertNormalizer;
//  - pre-tokenizers ByteLevel, which must be the last, Split, Digits, Metaspace, Whitespace, WhitespaceSplit,
//    Punctuation, BertPreTokenizer, CharDelimiterSplit;
//  - decoders ByteLevel, Replace, ByteFallback, Fuse, Strip, Metaspace;
//  - post-processors ByteLevel, TemplateProcessing, RobertaProcessing, BertProcessing;
//  - Sequences of all of these; added_tokens with all options.
// Not applied, as in transformers: truncation and padding.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/token_decoder.h"
#include "text/unigram.h"
#include "text/vocabulary.h"

namespace espalier {

struct TokenizerParts {
  Vocabulary vocabulary;  ///< added tokens included, index built
  bool byte_level = false;  ///< pieces are bytes, and tokens are written in the byte alphabet
  bool is_unigram = false;  ///< which of the two models spells pieces
  Bpe bpe;
  Unigram unigram;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  AddedTokens added;
  TokenDecoder decoder;           ///< empty: text is the bytes of the tokens
  bool add_prefix_space = false;  ///< before the pre-tokenizer, a text that does not start with a space gets one
  bool ignore_merges = false;     ///< a piece that is a token is that token, whatever the merges say
  std::vector<int32_t> prefix, suffix;  ///< what add_special puts around a text

  Vocabulary::Kind piece_kind() const { return byte_level ? Vocabulary::kBytes : Vocabulary::kText; }
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
