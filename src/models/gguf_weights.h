// A GGUF file as a WeightSource: tensors under Hugging Face's names, with what llama.cpp's converter did to them undone
// (models/gguf_arch.h), dequantised tile by tile by all threads straight into the model's memory.
#pragma once
#include "models/gguf_arch.h"
#include "models/weight_source.h"

namespace espalier {

/// `path` is a .gguf, or any part of a split one. Throws as GgufFile::open and gguf_config.
std::unique_ptr<WeightSource> open_gguf_source(const std::string& path, const ArchSpec& spec);

/// Where the row (of a vector: the element) that Hugging Face has at `row` lies in the file, for the tensor of this
/// Hugging Face name. Rotary pairs: head h, half s, index j (row = h D + s D/2 + j) lies at h D + 2 j + s. Joint q, k,
/// v: head h, which w, index j (row = 3 h D + w D + j) lies at w H D + h D + j. All others: at `row`.
int64_t gguf_row(const GgufArch& arch, const ArchSpec& spec, std::string_view name, int64_t row);
/// Whether gguf_row moves any.
bool gguf_moves_rows(const GgufArch& arch, std::string_view name);

}  // namespace espalier
