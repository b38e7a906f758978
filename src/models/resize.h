// Growing a vocabulary: more rows of the embedding and of the head that is not tied to it, for tokens that a tokenizer
// gained (text/extend_vocabulary.h). Rows that the model has beyond its tokens, as Qwen's do, are used first.
//
// A new row is the mean of the rows that were learned (Hewitt 2021, "Initializing New Word Embeddings for Pretrained
// Language Models"): the new tokens together then get no more of the softmax than an average token each, so that the
// model says of old texts what it said before. Rows at 0 or at random have logits near 0, which is above those of all
// usual tokens in many models, and take most of it. transformers draws around the mean with 1e-9 of the covariance:
// less than bf16 can hold, so we leave it out, and the rows do not depend on a seed, a dtype or the number of threads.
// They come apart with the first gradient, which differs by what each token stands beside.
#pragma once
#include <string>

#include "base/context.h"
#include "models/decoder.h"

namespace espalier {

struct VocabularyGrowth {
  int64_t known = 0;   ///< rows [0, known) are those of tokens that the model has learned
  int64_t tokens = 0;  ///< rows [known, tokens) become those of the new ones
  int64_t stored = 0;  ///< rows of the model as it is stored
  int64_t rows = 0;    ///< rows that it gets; never less

  bool is_new(int64_t row) const { return row >= stored || (row >= known && row < tokens); }
  bool changes() const { return known < tokens || stored < rows; }
};

/// What becomes of `stored` rows, where the tokenizer had `known` tokens and gets `tokens`; the rows are then a
/// multiple of `multiple`.
VocabularyGrowth grow_vocabulary(int64_t stored, int64_t known, int64_t tokens, int64_t multiple);

/// Fills a decoder in f32, whose spec is that of the model at `path` but for a vocabulary of growth.rows: the stored
/// rows as they are, and the new ones as above. Throws as load_weights.
void load_grown_weights(Context& ctx, Decoder& model, const std::string& path, const VocabularyGrowth& growth);

}  // namespace espalier
