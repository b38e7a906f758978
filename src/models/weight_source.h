// WeightSource: the tensors of a model's files under the names and in the shapes that Hugging Face gives them, whatever
// the format. A family's name map (models/registry.h) speaks to it; loading (models/load.h) reads it part by part, so
// that no second copy of the weights is ever in memory.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/context.h"
#include "formats/gguf_types.h"
#include "formats/safetensors.h"
#include "models/arch_spec.h"

namespace espalier {

/// A tensor in quantised blocks, as it lies in its file.
struct BlockTensor {
  GgmlType type = GgmlType::kQ8_0;
  const std::byte* blocks = nullptr;
  int64_t row_bytes = 0;
  std::vector<int64_t> rows;  ///< where Hugging Face's row i lies; empty: all where they are
};

class WeightSource {
 public:
  virtual ~WeightSource() = default;

  /// Of the model, for messages.
  virtual const std::string& path() const = 0;
  /// Of what says the shapes, for messages: "config.json", "the metadata".
  virtual const char* config_name() const = 0;
  /// All tensors; those that Hugging Face has no name for under the file's own.
  virtual const std::vector<std::string>& names() const = 0;
  /// nullptr where there is no such tensor.
  virtual const Shape* shape(const std::string& name) const = 0;
  /// True where the tensors that Hugging Face stores [in, out] (GPT-2's Conv1D) are [out, in] here.
  virtual bool transposes_conv1d() const { return false; }
  /// The blocks of a matrix of quantised type; they live as long as the source. Nothing for other tensors.
  virtual std::optional<BlockTensor> blocks(const std::string&) const { return std::nullopt; }
  /// Converts rows [row, row + to.rows) of a matrix, or elements [row, row + to.cols) of a vector (to is one row), into
  /// `to`, f32 or bf16. Error kBadData naming the tensor where a number is not finite, kUnsupported naming its type
  /// where that is not read.
  virtual void read(Context& ctx, const std::string& name, int64_t row, Mat to) const = 0;
};

/// The weights of a Hugging Face folder. Throws as open_weights.
std::unique_ptr<WeightSource> open_safetensors_source(const std::string& folder);

/// The weights of a model of this architecture at `path`: a Hugging Face folder or a .gguf.
std::unique_ptr<WeightSource> open_weight_source(const std::string& path, const ArchSpec& spec);

/// For implementations: throws the Error of a tensor that holds NaN or infinity.
[[noreturn]] void throw_not_finite(const std::string& path, const std::string& name);

}  // namespace espalier
