// safetensors, reading: the Hugging Face tensor file, one file or a folder of shards.
//
// Layout (https://huggingface.co/docs/safetensors): u64 little-endian N; N bytes of JSON, an object from tensor name to
// {"dtype": "F32", "shape": [..], "data_offsets": [begin, end]} and optionally "__metadata__" of strings to strings,
// padded with spaces; then the data section, to which offsets are relative and which the tensors fill without holes
// or overlaps. A folder has model.safetensors, or model.safetensors.index.json: {"weight_map": {name: shard file}}.
//
// Everything a header says is checked before anything is used; tensors then share the mapped file, without a copy.
// Writing is in formats/safetensors_writer.h; what the names mean is for models/.
#pragma once
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "tensor/tensor.h"

namespace espalier {

/// Where a tensor lies: `bytes` bytes from byte `begin` of its file, row-major.
struct TensorInfo {
  DType dtype = DType::kF32;
  Shape shape;
  uint64_t begin = 0, bytes = 0;
};

/// "F32", "BF16", ...: the format's names of our dtypes.
const char* safetensors_dtype_name(DType dtype);

/// What the header says, checked.
struct SafetensorsHeader {
  std::map<std::string, TensorInfo, std::less<>> tensors;
  std::vector<std::string> names;  ///< in the order of the data
  std::map<std::string, std::string> metadata;
};

/// Parses and checks the header of a whole file in memory. `what` names the file in errors. Throws Error kBadData
/// (truncated, lying sizes or offsets, overlaps, holes, repeated names, not JSON), kUnsupported (a dtype or a rank that
/// we do not have).
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file, const std::string& what);

/// One file, mapped.
class SafetensorsFile {
 public:
  static SafetensorsFile open(const std::string& path);

  const std::string& path() const { return file_->path(); }
  const std::vector<std::string>& names() const { return header_.names; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  /// nullptr where there is no such tensor.
  const TensorInfo* find(std::string_view name) const;
  /// The tensor, sharing the mapping, which is read-only: writing to it is a segmentation fault (clone() it). A
  /// tensor that another writer left misaligned for its dtype is copied. Error kNotFound naming the nearest name.
  Tensor tensor(std::string_view name) const;

 private:
  SafetensorsFile() = default;
  std::shared_ptr<const MappedFile> file_;
  SafetensorsHeader header_;
};

/// The tensors of a model folder, whichever files they are in.
class SafetensorsFolder {
 public:
  /// `path` is a folder, or one .safetensors file. Opens and checks every shard. Throws Error kNotFound (no weights,
  /// a shard is missing), kBadData (a bad file, or an index that does not say where the tensors are).
  static SafetensorsFolder open(const std::string& path);

  const std::vector<std::string>& names() const { return names_; }
  const std::vector<SafetensorsFile>& files() const { return files_; }
  /// nullptr where there is no such tensor.
  const TensorInfo* find(std::string_view name) const;
  /// As SafetensorsFile::tensor.
  Tensor tensor(std::string_view name) const;

 private:
  void read_index(const std::string& folder, const std::string& index_path);
  std::string path_;
  std::vector<SafetensorsFile> files_;
  std::vector<std::string> names_;                       // in the order of the files and their data
  std::map<std::string, size_t, std::less<>> file_of_;  // name to index into files_
};

}  // namespace espalier
