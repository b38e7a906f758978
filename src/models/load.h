// Reading a model: its configuration to an ArchSpec, its tensors (models/weight_source.h) to the decoder's weights
// through the family's name map.
#pragma once
#include <memory>
#include <string>

#include "models/decoder.h"

namespace espalier {

class WeightSource;

/// What becomes of weights that are quantised in a .gguf.
enum class Blocks {
  kDequantise,  ///< f32 or bf16, as `dtype` says
  kPack,        ///< they are repacked for products: the fastest
  kMap,         ///< they stay in the mapped file: ready at once and nearly no memory, but each product repacks them
};

struct LoadOptions {
  DType dtype = DType::kF32;  ///< of products (Decoder's); of the weights that are not quantised
  Blocks blocks = Blocks::kDequantise;
  bool train = false;
};

/// The architecture of the model at `path`, a Hugging Face folder or a .gguf. Where the folder's generation_config.json
/// says what ends a text, that counts, as in transformers. Throws as read_config, gguf_config and the file readers do.
ArchSpec load_spec(const std::string& path);

/// Reads a whole model. Tensors may be f32, bf16 or f16; in a GGUF of any type of formats/gguf_blocks.h. Throws Error
/// kBadData or kMismatch naming the tensor: missing, of another shape, not finite; kUnsupported for a tensor that the
/// architecture has no place for.
std::unique_ptr<Decoder> load_model(Context& ctx, const Mesh& mesh, const std::string& path,
                                    const LoadOptions& options);

/// Asks whether the source holds what the spec wants, in these shapes, and nothing else; throws as load_model.
void check_weights(const WeightSource& source, const ArchSpec& spec);

/// Fills an existing decoder of the same architecture.
void load_weights(Context& ctx, Decoder& model, const std::string& path);
/// The same where the stored model has a smaller vocabulary, as `stored` says, whose rows become the first ones; the
/// others stay as they are.
void load_weights(Context& ctx, Decoder& model, const std::string& path, const ArchSpec& stored);

}  // namespace espalier
