// safetensors, writing: planned first (names, dtypes, shapes), then streamed tensor by tensor in the order of the plan,
// so that a model larger than memory can be written. The layout is described in formats/safetensors.h. Files appear
// under their names whole or not at all: they are written beside them and renamed.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "tensor/tensor.h"

namespace espalier {

struct PlannedTensor {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  uint64_t bytes() const { return uint64_t(shape.size() * dtype_size(dtype)); }
};

struct SafetensorsOptions {
  /// Strings in the header; transformers wants "format".
  std::map<std::string, std::string> metadata = {{"format", "pt"}};
  /// Waits for the disk before the file gets its name.
  bool sync = false;
  /// Computes checksum() on the way.
  bool checksum = false;
};

/// One file. The data section begins at a multiple of 64 bytes; tensors follow each other without padding, as the
/// format demands, so a plan with several dtypes should begin with the widest.
class SafetensorsWriter {
 public:
  /// Creates PATH.tmp and writes the header. Names in the plan are unique. Throws Error kIo, kNoSpace.
  SafetensorsWriter(std::string path, std::vector<PlannedTensor> plan, SafetensorsOptions options = {});
  /// Removes the temporary file where finish() was not reached.
  ~SafetensorsWriter();
  SafetensorsWriter(SafetensorsWriter&&) = delete;

  const std::vector<PlannedTensor>& plan() const { return plan_; }
  /// The next bytes of tensor `name`, which is the next of the plan or the one begun; a tensor may come in pieces.
  void write(std::string_view name, const void* data, uint64_t bytes);
  /// The next tensor, whole; dtype and shape are as planned.
  void write(std::string_view name, const Tensor& tensor);
  /// After the last tensor: closes, syncs if wanted, and gives the file its name.
  void finish();

  /// Of the whole file, after finish().
  uint64_t file_bytes() const { return file_bytes_; }
  /// hash64 of the whole file, after finish(), where the options asked for it.
  uint64_t checksum() const { return hasher_ ? hasher_->digest() : 0; }

 private:
  void put(const void* data, uint64_t bytes);
  std::string path_, temporary_;
  std::vector<PlannedTensor> plan_;
  bool sync_;
  std::unique_ptr<FileWriter> file_;
  std::unique_ptr<Hasher> hasher_;
  uint64_t file_bytes_ = 0;
  size_t next_ = 0;        // of plan_
  uint64_t written_ = 0;  // of that tensor
};

/// A model folder's weights: model.safetensors, or shards of at most max_shard_bytes (a larger tensor gets one of its
/// own) named model-00001-of-0000N.safetensors, with model.safetensors.index.json written last.
class SafetensorsFolderWriter {
 public:
  struct Options {
    uint64_t max_shard_bytes = 5'000'000'000;  // transformers' default of 5 GB
    SafetensorsOptions file;
  };
  /// `folder` exists. The plan's order decides what stands together in a shard.
  SafetensorsFolderWriter(std::string folder, std::vector<PlannedTensor> plan, Options options);
  ~SafetensorsFolderWriter();

  /// As SafetensorsWriter::write.
  void write(std::string_view name, const void* data, uint64_t bytes);
  void write(std::string_view name, const Tensor& tensor);
  /// Finishes the last shard, writes the index, and removes the weights of an older model from the folder.
  void finish();

 private:
  void open_next();
  std::string shard_name(size_t index) const;
  void remove_older() const;

  std::string folder_;
  Options options_;
  std::vector<std::vector<PlannedTensor>> shards_;
  size_t opened_ = 0;              // shards begun
  uint64_t left_in_shard_ = 0;     // bytes
  std::unique_ptr<SafetensorsWriter> writer_;
};

}  // namespace espalier
