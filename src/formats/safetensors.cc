#include "formats/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_value.h"
#include "base/suggest.h"

namespace espalier {
namespace {

static_assert(std::endian::native == std::endian::little, "file formats are read in place");

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's limit
constexpr size_t kMaxIndexBytes = 100'000'000;

struct DTypeRow {
  DType dtype;
  const char* name;
};
constexpr DTypeRow kDTypes[] = {{DType::kF32, "F32"}, {DType::kBF16, "BF16"}, {DType::kF16, "F16"},
                                {DType::kI32, "I32"}, {DType::kU16, "U16"},   {DType::kU8, "U8"},
                                {DType::kI64, "I64"}, {DType::kF64, "F64"},   {DType::kBool, "BOOL"}};

DType dtype_of(const Json& entry, const std::string& place) {
  const std::string name = json_get<std::string>(entry, "dtype", place);
  for (const DTypeRow& row : kDTypes)
    if (name == row.name) return row.dtype;
  throw error(Code::kUnsupported, "reading {}: dtype '{}'; expected F64, F32, F16, BF16, I64, I32, U16, U8 or BOOL",
              place, name);
}

/// json[key] as a list of non-negative integers.
std::vector<int64_t> integers_of(const Json& entry, const char* key, const std::string& place) {
  const auto found = entry.find(key);
  if (found == entry.end() || !found->is_array())
    throw error(Code::kBadData, "reading {}: \"{}\" is missing or no list", place, key);
  std::vector<int64_t> values;
  for (const Json& value : *found) {
    if (!value.is_number_unsigned() || value.get<uint64_t>() > uint64_t{INT64_MAX})
      throw error(Code::kBadData, "reading {}: \"{}\" holds {}; expected integers from 0 on", place, key,
                  value.dump());
    values.push_back(value.get<int64_t>());
  }
  return values;
}

/// One entry of the header; `data_begin` and `data_bytes` describe the data section.
TensorInfo parse_entry(const Json& entry, const std::string& place, uint64_t data_begin, uint64_t data_bytes) {
  if (!entry.is_object()) throw error(Code::kBadData, "reading {}: not a JSON object", place);
  TensorInfo info;
  info.dtype = dtype_of(entry, place);
  const std::vector<int64_t> dims = integers_of(entry, "shape", place);
  if (dims.size() > size_t(Shape::kMaxRank))
    throw error(Code::kUnsupported, "reading {}: {} dimensions; at most {} are supported", place, dims.size(),
                Shape::kMaxRank);
  int64_t bytes = dtype_size(info.dtype);
  for (int64_t dim : dims)
    if (__builtin_mul_overflow(bytes, dim, &bytes))
      throw error(Code::kBadData, "reading {}: the shape is larger than any memory", place);
  info.shape = Shape(dims);
  const std::vector<int64_t> offsets = integers_of(entry, "data_offsets", place);
  if (offsets.size() != 2 || offsets[0] > offsets[1])
    throw error(Code::kBadData, "reading {}: \"data_offsets\" is not [begin, end]", place);
  if (uint64_t(offsets[1]) > data_bytes)
    throw error(Code::kBadData,
                "reading {}: its data ends at byte {} of a data section of {} bytes; the file is truncated or damaged, "
                "fetch it again", place, offsets[1], data_bytes);
  if (offsets[1] - offsets[0] != bytes)
    throw error(Code::kBadData, "reading {}: {} {} takes {} bytes, but its offsets span {}", place,
                safetensors_dtype_name(info.dtype), info.shape.text(), bytes, offsets[1] - offsets[0]);
  info.begin = data_begin + uint64_t(offsets[0]);
  info.bytes = uint64_t(bytes);
  return info;
}

void parse_metadata(const Json& entry, const std::string& what, std::map<std::string, std::string>& metadata) {
  if (!entry.is_object()) throw error(Code::kBadData, "reading {}: __metadata__ is no JSON object", what);
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_string())
      throw error(Code::kBadData, "reading {}: __metadata__ \"{}\" is no string", what, key);
    metadata[key] = value.get<std::string>();
  }
}

/// Sorts the names by place, and checks that the tensors fill the data section exactly.
void check_layout(SafetensorsHeader& header, uint64_t data_begin, uint64_t file_bytes, const std::string& what) {
  for (const auto& [name, info] : header.tensors) header.names.push_back(name);
  std::stable_sort(header.names.begin(), header.names.end(), [&](const std::string& a, const std::string& b) {
    const TensorInfo &x = header.tensors.at(a), &y = header.tensors.at(b);
    return std::pair(x.begin, x.bytes) < std::pair(y.begin, y.bytes);
  });
  uint64_t end = data_begin;
  std::string_view previous = "the header";
  for (const std::string& name : header.names) {
    const TensorInfo& info = header.tensors.at(name);
    if (info.begin != end)
      throw error(Code::kBadData, "reading {}: {} between '{}' and '{}'; tensors must follow one another", what,
                  info.begin < end ? "an overlap" : "a hole", previous, name);
    end += info.bytes;
    previous = name;
  }
  if (end != file_bytes)
    throw error(Code::kBadData, "reading {}: {} bytes after the last tensor '{}'", what, file_bytes - end, previous);
}

}  // namespace

const char* safetensors_dtype_name(DType dtype) {
  for (const DTypeRow& row : kDTypes)
    if (row.dtype == dtype) return row.name;
  ESP_CHECK(false, "dtype {}", int(dtype));
}

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file, const std::string& what) {
  uint64_t header_bytes = 0;
  if (file.size() < sizeof header_bytes)
    throw error(Code::kBadData, "reading {}: {} bytes; a safetensors file has at least 8", what, file.size());
  std::memcpy(&header_bytes, file.data(), sizeof header_bytes);
  if (header_bytes > kMaxHeaderBytes || header_bytes > file.size() - sizeof header_bytes)
    throw error(Code::kBadData,
                "reading {}: it claims a header of {} bytes, of a file of {}; it is truncated, or no safetensors file",
                what, header_bytes, file.size());
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + sizeof header_bytes, header_bytes);
  if (text.empty() || text[0] != '{')
    throw error(Code::kBadData, "reading {}: its header does not begin with '{{'; it is no safetensors file", what);
  const Json json = parse_json_unique(text, what);
  const uint64_t data_begin = sizeof header_bytes + header_bytes;
  SafetensorsHeader header;
  for (const auto& [name, entry] : json.items()) {
    if (name == "__metadata__") {
      parse_metadata(entry, what, header.metadata);
    } else {
      const std::string place = fmt::format("tensor '{}' of {}", name, what);
      header.tensors.emplace(name, parse_entry(entry, place, data_begin, file.size() - data_begin));
    }
  }
  check_layout(header, data_begin, file.size(), what);
  return header;
}

SafetensorsFile SafetensorsFile::open(const std::string& path) {
  SafetensorsFile file;
  file.file_ = std::make_shared<const MappedFile>(path);
  file.header_ = parse_safetensors_header(file.file_->bytes(), path);
  return file;
}

const TensorInfo* SafetensorsFile::find(std::string_view name) const {
  const auto found = header_.tensors.find(name);
  return found == header_.tensors.end() ? nullptr : &found->second;
}

Tensor SafetensorsFile::tensor(std::string_view name) const {
  const TensorInfo* info = find(name);
  if (!info)
    throw error(Code::kNotFound, "tensor '{}' of {}: not there{}", name, path(), did_you_mean(name, names()));
  const std::byte* data = file_->bytes().data() + info->begin;
  if (reinterpret_cast<uintptr_t>(data) % uintptr_t(dtype_size(info->dtype)) != 0) {
    Tensor copy(info->dtype, info->shape);
    std::memcpy(copy.data(), data, info->bytes);
    return copy;
  }
  const std::shared_ptr<void> owner = std::const_pointer_cast<MappedFile>(file_);
  return Tensor(info->dtype, info->shape, owner, const_cast<std::byte*>(data));
}

SafetensorsFolder SafetensorsFolder::open(const std::string& path) {
  SafetensorsFolder folder;
  folder.path_ = path;
  const bool many = is_folder(path);
  const std::string single = many ? path + "/model.safetensors" : path;
  const std::string index = path + "/model.safetensors.index.json";
  if (!many || path_exists(single)) {
    folder.files_.push_back(SafetensorsFile::open(single));
    folder.names_ = folder.files_[0].names();
    for (const std::string& name : folder.names_) folder.file_of_.emplace(name, 0);
  } else if (path_exists(index)) {
    folder.read_index(path, index);
  } else {
    throw error(Code::kNotFound,
                "reading the weights of {}: neither model.safetensors nor model.safetensors.index.json is there", path);
  }
  return folder;
}

void SafetensorsFolder::read_index(const std::string& folder, const std::string& index_path) {
  const Json json = read_json_file(index_path, kMaxIndexBytes);
  const auto map = json.is_object() ? json.find("weight_map") : json.end();
  if (map == json.end() || !map->is_object() || map->empty())
    throw error(Code::kBadData, "reading {}: \"weight_map\" is missing, empty or no object", index_path);
  std::map<std::string, size_t> file_index;  // sorted, so that shards are opened in order
  for (const auto& [name, shard] : map->items()) {
    // A shard stands beside its index; a path would let a downloaded file read others.
    if (!shard.is_string() || shard.get<std::string>().find('/') != std::string::npos)
      throw error(Code::kBadData, "reading {}: the file of '{}' is {}; expected a plain file name", index_path, name,
                  shard.dump());
    file_index.emplace(shard.get<std::string>(), 0);
  }
  for (auto& [shard, index] : file_index) {
    if (!is_file(folder + "/" + shard))
      throw error(Code::kNotFound, "reading the weights of {}: the shard {} is missing ({} are listed in {})", folder,
                  shard, file_index.size(), index_path);
    index = files_.size();
    files_.push_back(SafetensorsFile::open(folder + "/" + shard));
  }
  for (const auto& [name, shard] : map->items()) {
    const size_t index = file_index.at(shard.get<std::string>());
    if (!files_[index].find(name))
      throw error(Code::kBadData, "reading {}: tensor '{}' is not in {}, where the index says it is", index_path, name,
                  files_[index].path());
    file_of_.emplace(name, index);
  }
  for (size_t i = 0; i < files_.size(); ++i)
    for (const std::string& name : files_[i].names()) {
      const auto found = file_of_.find(name);
      if (found != file_of_.end() && found->second == i) names_.push_back(name);
    }
}

const TensorInfo* SafetensorsFolder::find(std::string_view name) const {
  const auto found = file_of_.find(name);
  return found == file_of_.end() ? nullptr : files_[found->second].find(name);
}

Tensor SafetensorsFolder::tensor(std::string_view name) const {
  const auto found = file_of_.find(name);
  if (found == file_of_.end())
    throw error(Code::kNotFound, "tensor '{}' of {}: not there{}", name, path_, did_you_mean(name, names_));
  return files_[found->second].tensor(name);
}

}  // namespace espalier
