// Prompts: from text to the ids that a model expects at the start of a sequence.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace espalier {

/// The BOS token, where the tokenizer's file says that texts start with it.
std::optional<int32_t> leading_bos(const Tokenizer& tokenizer);

/// BOS where the tokenizer wants it, then the text. Nothing is put behind it (a prompt is to be continued). A prompt
/// that would be empty becomes BOS, or else EOS, which stands between the documents of a training text.
std::vector<int32_t> encode_prompt(const Tokenizer& tokenizer, std::string_view text);

}  // namespace espalier
