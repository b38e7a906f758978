// Reading a model: config.json to an ArchSpec, safetensors to the decoder's weights through the family's name map.
#pragma once
#include <memory>
#include <string>

#include "models/decoder.h"

namespace espalier {

struct LoadOptions {
  DType dtype = DType::kF32;  ///< of products (Decoder's)
  bool train = false;
};

/// The architecture of the model at `path` (a Hugging Face folder). Throws as read_config and the file readers do.
ArchSpec load_spec(const std::string& path);

/// Reads a whole model. Tensors may be f32, bf16 or f16. Throws Error kBadData or kMismatch naming the tensor: missing,
/// of another shape, not finite; kUnsupported for a tensor that the architecture has no place for.
std::unique_ptr<Decoder> load_model(Context& ctx, const Mesh& mesh, const std::string& path,
                                    const LoadOptions& options);

/// Fills an existing decoder of the same architecture.
void load_weights(Context& ctx, Decoder& model, const std::string& path);

}  // namespace espalier
