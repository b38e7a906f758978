// The "model" of tokenizer.json, read from simdjson's tree; only for the files that read tokenizer.json.
#pragma once
#include "text/tokenizer_json_reader.h"

namespace simdjson::dom {
class element;
}

namespace espalier {

/// Reads the model and its vocabulary, with the added tokens, into parts and reader.ids. `model` lacks vocabulary and
/// merges, which `file` has. parts.byte_level must be set.
void read_model(JsonReader& reader, const Json& model, const simdjson::dom::element& file,
                const std::vector<AddedToken>& added, TokenizerParts& parts);

}  // namespace espalier
