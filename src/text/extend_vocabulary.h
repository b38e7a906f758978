// New special tokens for a tokenizer that exists: its tokenizer.json with entries more in "added_tokens", and nothing
// else of it touched.
#pragma once
#include <span>
#include <string>

#include "text/tokenizer.h"

namespace espalier {

/// The tokenizer with these special tokens, whose ids follow its last one in the order of the names. Throws Error
/// kUsage naming the one that is empty, is no UTF-8, comes twice or is a token already, and where they are too many.
Tokenizer with_added_tokens(const Tokenizer& tokenizer, std::span<const std::string> names);

}  // namespace espalier
