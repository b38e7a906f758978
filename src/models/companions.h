// What stands beside a model's weights and speaks of its text: the tokenizer, the chat template, the settings of
// generation. A model that is written anew takes them along, whatever format it came from.
#pragma once
#include <optional>
#include <string>

#include "text/tokenizer.h"

namespace espalier {

struct Companions {
  std::string folder;                        ///< whose files are taken as they are; empty: none
  std::optional<Tokenizer> tokenizer;        ///< written over the folder's
  std::optional<std::string> chat_template;  ///< likewise

  /// Those of the model at `path`, a Hugging Face folder (which is not read now) or a .gguf. Throws as
  /// load_gguf_tokenizer where a .gguf has a vocabulary that we do not know.
  static Companions of(const std::string& path);

  /// The tokenizer, the folder's where there is no other; nothing where there is none. Throws as Tokenizer::load.
  std::optional<Tokenizer> load_tokenizer() const;
  /// Writes all of them into an existing folder.
  void save(const std::string& to) const;
};

}  // namespace espalier
