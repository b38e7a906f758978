// Training a byte-level BPE (Gage 1994; Sennrich et al. 2016): count the pieces of the corpus, then again and again
// make a token of the most frequent pair of neighbours. Gives the vocabulary and merges that the `tokenizers` library's
// BpeTrainer gives with initial_alphabet = ByteLevel.alphabet(): of pairs equally frequent the one with the smaller ids
// comes first, special tokens have the first ids, then the 256 bytes in the order of their characters.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/context.h"
#include "base/function_ref.h"
#include "base/progress.h"
#include "text/piece_counter.h"
#include "text/tokenizer.h"

namespace espalier {

struct BpeTrainOptions {
  int64_t vocab_size = 8192;      ///< special tokens and bytes included; fewer where the text gives no more pairs
  int64_t min_frequency = 2;      ///< a pair rarer than this becomes no token
  std::string pattern = "gpt2";   ///< a name of text/split.h
  std::vector<std::string> special_tokens = {"<|endoftext|>"};
};

/// Puts the next document into the string and returns true, or returns false at the end. Long documents should come in
/// parts cut at last_safe_cut(): what is counted is the same, and memory stays small.
using NextDocument = FunctionRef<bool(std::string& document)>;

/// Counts the pieces of all documents with the threads of the pool. Ill-formed UTF-8 is read as U+FFFD.
PieceCounter count_pieces(Context& context, Progress& progress, const std::string& pattern, NextDocument next);

/// Trains on counted pieces. The result does not depend on threads or on the order of documents.
Tokenizer train_bpe(Progress& progress, const BpeTrainOptions& options, const PieceCounter& pieces);

/// Both. Errors: kUsage for an unknown pattern or a vocabulary too small or too large.
Tokenizer train_bpe(Context& context, Progress& progress, const BpeTrainOptions& options, NextDocument next);

}  // namespace espalier
