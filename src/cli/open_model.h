// What verbs that run a model share: from the name a user gave to a tokenizer and a decoder.
#pragma once
#include <memory>
#include <string>

#include "cli/terminal.h"
#include "models/decoder.h"
#include "text/tokenizer.h"

namespace espalier {

/// A tokenizer.json itself, or the one of a model (whatever find_model finds).
Tokenizer open_tokenizer(const std::string& model);

/// Loads the model at `folder` (find_model's). `dtype` is that of its matrices in memory: f32, bf16, or auto:
/// bf16 where that is what the files hold.
std::unique_ptr<Decoder> open_model(Terminal& terminal, const std::string& folder, const std::string& dtype);

/// All of standard input.
std::string read_stdin();

}  // namespace espalier
