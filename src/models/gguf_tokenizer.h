// The tokenizer and the chat template that a GGUF file carries. What the arrays mean is text/gguf_tokenizer.h.
#pragma once
#include <optional>
#include <string>

#include "formats/gguf.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace espalier {

/// Throws as tokenizer_of, and Error kNotFound where the file has no vocabulary.
Tokenizer load_gguf_tokenizer(const GgufFile& file);

/// The tokenizer of a model: a .gguf's own, or as Tokenizer::load.
Tokenizer load_tokenizer(const std::string& path);

/// Metadata tokenizer.chat_template.
std::optional<std::string> gguf_chat_template(const GgufFile& file);

/// The chat template of a model: a .gguf's own, or as ChatTemplate::load. Nothing where it has none.
std::optional<ChatTemplate> load_chat_template(const std::string& path);

/// Puts the tokenizer of `path` into the metadata of a model with `vocab_size` rows. Throws as vocabulary_of.
void put_tokenizer(const Tokenizer& tokenizer, int64_t vocab_size, const std::string& path,
                   GgufMetadataBuilder& metadata);

}  // namespace espalier
