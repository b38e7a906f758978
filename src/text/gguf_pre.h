// The names of tokenizer.ggml.pre and the rules of tokenizer.json that they stand for. A new one is a row here.
#pragma once
#include <span>
#include <string>

#include "base/json.h"
#include "text/split.h"

namespace espalier {

struct GgufPre {
  const char* name;
  const SplitPattern* split;  ///< nullptr: GPT-2's, inside ByteLevel
  bool single_digits = false;
  bool ignore_merges = false;
  bool nfc = false;
};

std::span<const GgufPre> gguf_pres();
/// Error kUnsupported that lists those known.
const GgufPre& find_gguf_pre(const std::string& name, const std::string& what);

Json pre_tokenizer_json(const GgufPre& pre);
Json normalizer_json(const GgufPre& pre);

/// What decides about pieces, the same for all ways to write down a pre-tokenizer.
std::string pre_tokenizer_rules(const Json& pre_tokenizer);

}  // namespace espalier
