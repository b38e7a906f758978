// A text as one vector: the mean of the model's final hidden states over its tokens, of length 1.
#pragma once
#include <span>
#include <vector>

#include "models/decoder.h"

namespace espalier {

/// [C] for at least one id. Rows are read with the serving products, so that a text's vector is the same bits whatever
/// is read beside it. Throws Error kUsage where the text is empty or longer than the context, kMismatch for an id
/// outside the vocabulary.
std::vector<float> embed_text(Context& ctx, Decoder& model, std::span<const int32_t> ids);

}  // namespace espalier
