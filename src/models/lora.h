// LoRA adapters (Hu et al. 2021, arXiv 2106.09685): a weight W [out, in] becomes W + s B A with A [r, in], B [out, r]
// and s = alpha / r. The model's own weights stay as they are, so that each request can have its own adapters: the
// product of its rows is y = W x + s B (A x), and nothing is added to the others'.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "models/arch_spec.h"
#include "tensor/tensor.h"

namespace espalier {

/// The change of some rows of one of the model's weights.
struct LoraPart {
  int64_t row = 0;  ///< the first of them
  Tensor a, b;      ///< f32 [r, in], [rows, r]
  float scale = 1;
};

class LoraAdapter {
 public:
  /// Reads an adapter for a model of this architecture: a folder or adapter_model.safetensors as PEFT writes them, with
  /// adapter_config.json beside it, or a .gguf as llama.cpp's convert_lora_to_gguf writes it. Throws Error kNotFound,
  /// kBadData (a broken file, half a pair, a number that is not finite), kMismatch (a shape or an architecture that is
  /// not the model's), kUnsupported naming what has no place here (DoRA, biases, whole modules, embeddings).
  static std::shared_ptr<const LoraAdapter> load(const std::string& path, const ArchSpec& spec);

  const std::string& path() const { return path_; }
  /// The changes of a weight of weight_list; none where the adapter leaves it as it is.
  const std::vector<LoraPart>& parts(std::string_view weight) const;
  int64_t parameters() const;

 private:
  friend class LoraReader;
  std::string path_;
  std::map<std::string, std::vector<LoraPart>, std::less<>> parts_;
};

/// An adapter and how much of it.
struct LoraUse {
  std::shared_ptr<const LoraAdapter> adapter;
  float scale = 1;
};

/// Rows of a batch that an adapter changes.
struct LoraRows {
  const LoraAdapter* adapter = nullptr;
  float scale = 1;
  int64_t begin = 0, count = 0;
};

}  // namespace espalier
