// Writing a model as a GGUF file that llama.cpp and we read: the converter's changes (models/gguf_arch.h) done to
// tensors one after the other, so that the model is never whole in memory.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/context.h"
#include "formats/gguf_types.h"

namespace espalier {

struct SaveGgufOptions {
  /// A row of models/gguf_recipe.h: which matrices get which type. Vectors and learned positions stay F32.
  std::string dtype = "f32";
  /// Of the output head and the token embedding, where the recipe shall not say it.
  std::optional<GgmlType> head;
  /// Weights that are quantised already may be quantised again to fewer bits. Those that have the wanted type already
  /// are copied as they are.
  bool requantise = false;
  bool sync = true;
};

/// Matrices whose rows are not whole blocks of the type that the recipe gives them.
struct GgufFallback {
  GgmlType wanted, given;
  std::vector<std::string> names;  ///< GGUF's
};

/// The model at `from` (a Hugging Face folder or a .gguf) with its tokenizer and chat template as the file `to`, which
/// appears whole or not at all. Returns what fell back to another type, in the order of the file. Throws as loading
/// does; Error kUnsupported naming what GGUF has no words for, or a tensor with numbers that f16 scales do not reach;
/// kUsage for an unknown dtype, and for weights that would be quantised twice without leave.
std::vector<GgufFallback> save_gguf(Context& ctx, const std::string& from, const std::string& to,
                                    const SaveGgufOptions& options = {});

}  // namespace espalier
