// Writing a model as a Hugging Face folder that transformers loads.
#pragma once
#include <string>

#include "models/decoder.h"

namespace espalier {

struct SaveOptions {
  DType dtype = DType::kF32;                      ///< f32, bf16 or f16
  uint64_t max_shard_bytes = 5'000'000'000;
  bool sync = true;
};

/// Writes config.json and the weights to `folder`. They are written beside it and moved over it when whole, so that
/// `folder` holds the old model or the new one. Files of other names in an existing folder (the tokenizer) are kept.
void save_model(Context& ctx, const Decoder& model, const std::string& folder, const SaveOptions& options = {});

}  // namespace espalier
