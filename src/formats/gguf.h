// GGUF, reading: the model file of llama.cpp, one file or the parts of a split one.
//
// Layout, version 2 and 3 (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md), all little-endian:
//   "GGUF", u32 version, u64 tensors, u64 metadata pairs;
//   the pairs: key as a string (u64 length, bytes), value (formats/gguf_metadata.h);
//   the tensors: name as a string, u32 rank of at most 4, u64 dimensions (the fastest first, the reverse of ours),
//     u32 type (formats/gguf_types.h), u64 offset into the data section;
//   zeros up to a multiple of metadata "general.alignment" (32), then the data section, in which each tensor begins at
//   a multiple of it.
// A split model's parts are named NAME-00001-of-0000N.gguf; "split.no", "split.count" and "split.tensors.count" say the
// same inside, and the first part has the metadata of the model.
//
// Everything a header says is checked before anything is used; metadata and tensors then stay in the mapped file.
// Turning blocks into numbers is in formats/gguf_blocks.h, writing in formats/gguf_writer.h; what names mean is for
// models/.
#pragma once
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "formats/gguf_metadata.h"
#include "formats/gguf_types.h"
#include "tensor/tensor.h"

namespace espalier {

/// Where a tensor lies.
struct GgufTensor {
  std::string_view name;
  GgmlType type = GgmlType::kF32;
  Shape shape;                    ///< ours: row-major, the last dimension contiguous and of whole blocks
  uint64_t begin = 0, bytes = 0;  ///< of its file
  size_t part = 0;                ///< index of that file
};

/// What the header of one file says, checked. Views point into the file's memory.
struct GgufHeader {
  uint32_t version = 0;
  uint64_t alignment = 32, data_begin = 0;
  GgufMetadata metadata;
  std::vector<GgufTensor> tensors;  ///< in the order of the file
};

/// Parses and checks the header of a whole file in memory. `what` names it in errors: kBadData (no GGUF, truncated,
/// lying counts, lengths or dimensions, a bad alignment, repeated names, tensors that overlap or lie outside),
/// kUnsupported (version 1, big-endian, nested arrays, a tensor type of an unknown number).
GgufHeader parse_gguf_header(std::span<const std::byte> file, const std::string& what);

/// True for a file that begins as GGUF files do.
bool is_gguf(const std::string& path);

/// A model, all parts of it mapped.
class GgufFile {
 public:
  /// `path` is the file, or any part of a split model. Throws as parse_gguf_header, kNotFound where a part is missing,
  /// kMismatch where the parts are not of one model.
  static GgufFile open(const std::string& path);

  const std::string& path() const { return files_[0]->path(); }
  size_t parts() const { return files_.size(); }
  uint32_t version() const { return version_; }
  uint64_t alignment() const { return alignment_; }
  const GgufMetadata& metadata() const { return metadata_; }
  /// In the order of the parts and their headers.
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  /// nullptr where there is no such tensor.
  const GgufTensor* find(std::string_view name) const;
  /// The blocks of a tensor of this file.
  std::span<const std::byte> data(const GgufTensor& tensor) const;

 private:
  GgufFile() = default;
  void add_part(std::shared_ptr<const MappedFile> file, GgufHeader header);

  std::vector<std::shared_ptr<const MappedFile>> files_;
  uint32_t version_ = 0;
  uint64_t alignment_ = 32;
  GgufMetadata metadata_;
  std::vector<GgufTensor> tensors_;
  std::map<std::string_view, size_t> index_;
};

/// Part `index` of `count` of the split model that `path` is a part of: "x-00002-of-00003.gguf". Nothing where the name
/// is not of this kind.
std::optional<std::string> gguf_part_path(const std::string& path, int64_t index, int64_t count);

}  // namespace espalier
