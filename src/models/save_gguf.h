// Writing a model as a GGUF file that llama.cpp and we read: the converter's changes (models/gguf_arch.h) done to
// tensors one after the other, so that the model is never whole in memory.
#pragma once
#include <string>

#include "base/context.h"
#include "formats/gguf_types.h"

namespace espalier {

struct SaveGgufOptions {
  /// F32, F16, BF16 or Q8_0, of matrices. Vectors and learned positions stay F32; a matrix whose rows are not whole
  /// blocks becomes F16, as in llama.cpp.
  GgmlType type = GgmlType::kF32;
  bool sync = true;
};

/// The model at `from` (a Hugging Face folder or a .gguf) with its tokenizer and chat template as the file `to`, which
/// appears whole or not at all. Throws as loading does; Error kUnsupported naming what GGUF has no words for.
void save_gguf(Context& ctx, const std::string& from, const std::string& to, const SaveGgufOptions& options = {});

}  // namespace espalier
