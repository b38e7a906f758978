// SentencePiece's files, tokenizer.model, as a tokenizer.json: the pieces are read here (they are a few fields of a
// Protocol Buffers message), and from then on there is one tokenizer. The ids are SentencePiece's own, which the tests
// hold them against; of two ways to write a text that a Unigram model scores alike, to the last bit of a float, either
// may be chosen.
//
// Read of ModelProto (https://github.com/google/sentencepiece/blob/master/src/sentencepiece_model.proto): 1 pieces
// {1 piece, 2 score, 3 type}; 2 trainer_spec {3 model_type, 24 treat_whitespace_as_suffix, 35 byte_fallback, 40-43 ids
// of unknown, BOS, EOS, PAD}; 3 normalizer_spec {2 precompiled_charsmap, 3 add_dummy_prefix, 4
// remove_extra_whitespaces, 5 escape_whitespaces}. All else is passed over.
#pragma once
#include <string>
#include <string_view>

#include "text/tokenizer.h"

namespace espalier {

struct SentencePieceOptions {
  bool add_bos = false, add_eos = false;  ///< with EncodeOptions::add_special; the file does not say
};

/// `bytes` is a whole file and `what` names it in errors: kBadData for what is no such message (truncated, fields of
/// another type, no pieces, ids outside), kUnsupported for models of words or characters and for spaces behind words.
Tokenizer sentencepiece_tokenizer(std::string_view bytes, const std::string& what,
                                  const SentencePieceOptions& options = {});

}  // namespace espalier
