// GGUF's architectures in the words of Hugging Face: metadata keys as config.json's fields, tensor names, and what
// llama.cpp's converter did to the weights. One row an architecture; what the fields mean is the registry's
// (models/registry.h), so that there is one way from a configuration to an ArchSpec.
//
// What the converter does, and is undone here: in `rotary_pairs` architectures the rows of each head's queries and keys
// are reordered from halves (0..D/2, D/2..D) to pairs (0, D/2, 1, D/2 + 1, ...); Gemma's norm weights are stored one
// larger; GPT-2's Conv1D weights are [out, in]; GPT-NeoX's joint q, k, v rows are sorted from head by head to all q,
// all k, all v; Llama 3's rope scaling is a tensor of factors, rope_freqs.weight.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/json.h"
#include "formats/gguf.h"
#include "models/arch_spec.h"

namespace espalier {

struct GgufArch {
  /// A value of the metadata, under "ARCH." + gguf, and the field of config.json that says the same.
  struct Key {
    const char *gguf, *config;
    enum Kind { kInteger, kNumber, kBool } kind = kInteger;
    bool required = true;
  };
  /// Names without ".weight" or ".bias".
  struct TensorName {
    const char *gguf, *config;
  };
  const char* name;         ///< general.architecture
  const char* model_type;   ///< config.json's
  const char* layer_prefix;  ///< "model.layers."; GGUF's is "blk."
  std::span<const Key> keys;
  std::span<const TensorName> outer, block, norms;  ///< outside layers, in a layer, and norms of a layer
  bool rotary_pairs = false, norms_plus_one = false, conv1d = false, joint_qkv = false;
  /// Adds to config.json what is no plain value of the metadata.
  void (*complete)(const GgufFile& file, Json& config) = nullptr;
};

/// The row of this general.architecture; nullptr where there is none.
const GgufArch* find_gguf_arch(std::string_view name);
/// The row that a model of this config.json type is written as; nullptr where there is none.
const GgufArch* find_gguf_arch_of(std::string_view model_type);

/// The row of a file's architecture; Error kUnsupported naming the known ones.
const GgufArch& need_gguf_arch(const GgufFile& file);

/// What the model's config.json would say. Throws Error kUnsupported naming the architecture or the feature that is not
/// known, kBadData naming the metadata that is missing or of another type.
Json gguf_config(const GgufFile& file);

/// By what Llama 3's rule divides the frequency theta^(-exponent): rope_freqs.weight holds it for exponent = 2 j / D.
double llama3_rope_divisor(double theta, double exponent, const RopeScaling& scaling);

/// "blk.3.attn_q.weight" to "model.layers.3.self_attn.q_proj.weight"; nothing where the architecture has no such name.
std::optional<std::string> gguf_to_config_name(const GgufArch& arch, std::string_view name);
/// The inverse.
std::optional<std::string> config_to_gguf_name(const GgufArch& arch, std::string_view name);

}  // namespace espalier
