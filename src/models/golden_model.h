// Test support: the tiny models of tests/golden/models and what PyTorch computed from them.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/context.h"
#include "formats/safetensors.h"
#include "models/load.h"

namespace espalier {

inline const std::vector<std::string>& golden_names() {
  static const std::vector<std::string> names = {
      "gpt2",  "llama2", "llama3",  "mistral", "qwen2",   "qwen3",  "gpt_neox",
      "gemma2", "gemma3", "phi3", "olmo2",   "granite", "smollm3"};
  return names;
}

inline std::string golden_folder(const std::string& name) {
  return std::string(ESP_SOURCE_DIR) + "/tests/golden/models/" + name;
}

/// A pool and a context of their own, and the arrays of one batch of whole sequences.
struct GoldenModel {
  ThreadPool pool{2};
  Context ctx{pool, silent_log()};
  std::string folder;
  SafetensorsFile golden;
  std::unique_ptr<Decoder> model;
  std::vector<int32_t> ids, positions, first_key, targets;
  int64_t sequences = 0, rows = 0;

  GoldenModel(const std::string& name, Isa isa, LoadOptions options = {})
      : folder(golden_folder(name)),
        golden(SafetensorsFile::open(folder + "/golden.safetensors")) {
    ctx.isa = isa;
    model = load_model(ctx, one_process_mesh(), folder, options);
    const Tensor tokens = golden.tensor("ids");
    sequences = tokens.shape()[0];
    rows = tokens.shape()[1];
    ids.assign(tokens.as<int32_t>(), tokens.as<int32_t>() + tokens.size());
    for (int64_t i = 0; i < sequences * rows; ++i) {
      const int64_t t = i % rows;
      positions.push_back(int32_t(t));
      first_key.push_back(0);
      targets.push_back(t + 1 < rows ? ids[size_t(i + 1)] : -1);
    }
  }

  Batch batch() const { return {sequences, rows, ids.data(), positions.data(), first_key.data()}; }
  /// Targets of the whole batch: transformers averages the loss over them.
  int64_t target_count() const { return sequences * (rows - 1); }
};

/// The instances of the kernel table that this machine can run.
inline std::vector<Isa> isas_here() {
  std::vector<Isa> list = {Isa::kReference, Isa::kAvx2};
  if (choose_isa() == Isa::kAvx3) list.push_back(Isa::kAvx3);
  return list;
}

/// |a - b| / |b|, both as vectors of f32.
inline double relative_error(const float* a, const float* b, int64_t n) {
  double difference = 0, norm = 0;
  for (int64_t i = 0; i < n; ++i) {
    difference += (double(a[i]) - b[i]) * (double(a[i]) - b[i]);
    norm += double(b[i]) * b[i];
  }
  return std::sqrt(difference / std::max(norm, 1e-60));
}

}  // namespace espalier
