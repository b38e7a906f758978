// GGUF, writing: planned first (metadata, names, types, shapes), then streamed tensor by tensor in the order of the
// plan. The layout is described in formats/gguf.h. The file appears under its name whole or not at all: it is written
// beside it and renamed.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "formats/gguf_metadata.h"
#include "formats/gguf_types.h"
#include "tensor/tensor.h"

namespace espalier {

struct PlannedGgufTensor {
  std::string name;
  GgmlType type = GgmlType::kF32;
  Shape shape;  ///< ours; the last dimension is whole blocks

  uint64_t bytes() const {
    return uint64_t(shape.size()) / uint64_t(ggml_type_info(type).elements) * uint64_t(ggml_type_info(type).bytes);
  }
};

class GgufWriter {
 public:
  /// Creates PATH.tmp and writes the header: version 3, aligned to 32. Names in the plan are unique, ranks at most 4.
  /// Throws Error kIo, kNoSpace.
  GgufWriter(std::string path, const GgufMetadataBuilder& metadata, std::vector<PlannedGgufTensor> plan);
  /// Removes the temporary file where it did not get its name.
  ~GgufWriter();
  GgufWriter(GgufWriter&&) = delete;

  /// The next numbers of tensor `name`, which is the next of the plan or the one begun; whole blocks, quantised here
  /// (formats/gguf_quantise.h). A tensor may come in pieces.
  void write(std::string_view name, const float* numbers, int64_t count);
  /// The same from blocks as they are.
  void write_blocks(std::string_view name, const void* data, uint64_t bytes);
  /// After the last tensor: closes the file, syncs where `sync`, and gives it its name.
  void finish(bool sync = true) {
    close(sync);
    publish();
  }
  /// The two halves of finish(), for who wants to look at temporary() in between.
  void close(bool sync = true);
  void publish();
  const std::string& temporary() const { return temporary_; }

 private:
  void skip_complete();
  std::string path_, temporary_;
  std::vector<PlannedGgufTensor> plan_;
  std::unique_ptr<FileWriter> file_;
  bool synced_ = false, published_ = false;
  size_t next_ = 0;       // of plan_
  uint64_t written_ = 0;  // of that tensor
};

}  // namespace espalier
