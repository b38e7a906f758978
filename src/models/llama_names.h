// Hugging Face's names of the weights of Llama and of the many families that are named after it.
#pragma once
#include "models/registry.h"

namespace espalier {

/// Family::parts: q, k and v apart, gate and up apart. The norms' names follow from where the spec has norms.
std::vector<TensorPart> llama_parts(const ArchSpec& spec, std::string_view ours);
/// The same with qkv_proj and gate_up_proj in one each (Phi-3).
std::vector<TensorPart> fused_llama_parts(const ArchSpec& spec, std::string_view ours);
/// Family::ignored: the rotary frequencies that old files carry.
bool llama_ignored(std::string_view name);

}  // namespace espalier
