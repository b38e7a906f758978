#include "formats/gguf.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>

#include "base/error.h"

namespace espalier {
namespace {

static_assert(std::endian::native == std::endian::little, "file formats are read in place");

constexpr std::string_view kMagic = "GGUF";
constexpr uint32_t kMaxRank = 4;             // ggml's
constexpr uint64_t kMaxAlignment = 1 << 16;  // 32 is usual; larger than a huge header's worth of padding is a lie
constexpr int64_t kMaxParts = 99'999;        // five digits

// The least bytes that a pair (empty key, one byte) and a tensor (empty name, no dimension) take.
constexpr uint64_t kLeastPair = 8 + 4 + 1, kLeastTensor = 8 + 4 + 4 + 8;

/// Reads from the front of a file, never beyond its end.
class Cursor {
 public:
  Cursor(std::span<const std::byte> file, const std::string& what)
      : text_(reinterpret_cast<const char*>(file.data()), file.size()), what_(what) {}

  uint64_t position() const { return at_; }
  uint64_t left() const { return text_.size() - at_; }
  const std::string& what() const { return what_; }

  std::string_view take(uint64_t bytes, std::string_view field) {
    if (bytes > left())
      throw error(Code::kBadData, "reading {}: {} takes {} bytes, but {} are left; the file is truncated or damaged, "
                  "fetch it again", what_, field, bytes, left());
    const std::string_view taken = text_.substr(at_, bytes);
    at_ += bytes;
    return taken;
  }
  template <class V>
  V number(std::string_view field) {
    V value;
    std::memcpy(&value, take(sizeof value, field).data(), sizeof value);
    return value;
  }
  std::string_view text(std::string_view field) { return take(number<uint64_t>(field), field); }

 private:
  std::string_view text_;
  const std::string& what_;
  uint64_t at_ = 0;
};

uint64_t element_bytes(GgufValueType type) {
  switch (type) {
    case GgufValueType::kU8:
    case GgufValueType::kI8:
    case GgufValueType::kBool:
      return 1;
    case GgufValueType::kU16:
    case GgufValueType::kI16:
      return 2;
    case GgufValueType::kU32:
    case GgufValueType::kI32:
    case GgufValueType::kF32:
      return 4;
    default:
      return 8;  // of a string: its length
  }
}

GgufValueType value_type(Cursor& cursor, const std::string& field) {
  const auto number = cursor.number<uint32_t>(field);
  if (number > uint32_t(GgufValueType::kF64))
    throw error(Code::kBadData, "reading {}: the type of {} is {}; expected 0 to {}", cursor.what(), field, number,
                uint32_t(GgufValueType::kF64));
  return GgufValueType(number);
}

void check_bools(const Cursor& cursor, std::string_view bytes, const std::string& field) {
  for (const char c : bytes)
    if (c != 0 && c != 1)
      throw error(Code::kBadData, "reading {}: {} is a bool of value {}; expected 0 or 1", cursor.what(), field,
                  int(uint8_t(c)));
}

GgufValue read_array(Cursor& cursor, const std::string& field) {
  GgufValue value{.type = GgufValueType::kArray, .element = value_type(cursor, field)};
  if (value.element == GgufValueType::kArray)
    throw error(Code::kUnsupported, "reading {}: {} is an array of arrays, which no model uses", cursor.what(), field);
  value.count = cursor.number<uint64_t>(field);
  const uint64_t least = element_bytes(value.element);
  if (value.count > cursor.left() / least)
    throw error(Code::kBadData, "reading {}: {} claims {} elements of {}, but {} bytes are left; the file is truncated "
                "or damaged, fetch it again", cursor.what(), field, value.count, gguf_value_type_name(value.element),
                cursor.left());
  if (value.element != GgufValueType::kString) {
    value.bytes = cursor.take(value.count * least, field);
  } else {
    Cursor walker = cursor;
    const uint64_t begin = walker.position();
    for (uint64_t i = 0; i < value.count; ++i) walker.text(field);
    value.bytes = cursor.take(walker.position() - begin, field);
  }
  if (value.element == GgufValueType::kBool) check_bools(cursor, value.bytes, field);
  return value;
}

GgufValue read_value(Cursor& cursor, const std::string& field) {
  const GgufValueType type = value_type(cursor, field);
  if (type == GgufValueType::kArray) return read_array(cursor, field);
  GgufValue value{.type = type};
  value.bytes = type == GgufValueType::kString ? cursor.text(field) : cursor.take(element_bytes(type), field);
  if (type == GgufValueType::kBool) check_bools(cursor, value.bytes, field);
  return value;
}

/// Version and the counts behind it.
struct Counts {
  uint32_t version;
  uint64_t tensors, pairs;
};

Counts read_counts(Cursor& cursor) {
  if (cursor.left() < kMagic.size() || cursor.take(kMagic.size(), "the magic number") != kMagic)
    throw error(Code::kBadData, "reading {}: it does not begin with \"GGUF\"; it is no GGUF file", cursor.what());
  Counts counts{};
  counts.version = cursor.number<uint32_t>("the version");
  if (counts.version != 0 && (counts.version & 0xFFFF) == 0)
    throw error(Code::kUnsupported, "reading {}: it is a big-endian GGUF; convert the model to a little-endian one",
                cursor.what());
  if (counts.version != 2 && counts.version != 3)
    throw error(counts.version == 1 ? Code::kUnsupported : Code::kBadData,
                "reading {}: GGUF version {}; versions 2 and 3 are read", cursor.what(), counts.version);
  counts.tensors = cursor.number<uint64_t>("the number of tensors");
  counts.pairs = cursor.number<uint64_t>("the number of metadata pairs");
  if (counts.pairs > cursor.left() / kLeastPair)
    throw error(Code::kBadData, "reading {}: it claims {} metadata pairs, more than {} bytes can hold", cursor.what(),
                counts.pairs, cursor.left());
  if (counts.tensors > cursor.left() / kLeastTensor)
    throw error(Code::kBadData, "reading {}: it claims {} tensors, more than {} bytes can hold", cursor.what(),
                counts.tensors, cursor.left());
  return counts;
}

void read_metadata(Cursor& cursor, uint64_t pairs, GgufMetadata& metadata) {
  for (uint64_t i = 0; i < pairs; ++i) {
    const std::string_view key = cursor.text(fmt::format("metadata key {}", i));
    if (!metadata.add(key, read_value(cursor, fmt::format("metadata '{}'", key))))
      throw error(Code::kBadData, "reading {}: metadata '{}' is there twice", cursor.what(), key);
  }
}

/// The shape, reversed into ours, and the bytes that it takes in blocks of the type.
void read_shape(Cursor& cursor, GgufTensor& tensor, const std::string& field) {
  const auto rank = cursor.number<uint32_t>(field);
  if (rank > kMaxRank)
    throw error(Code::kBadData, "reading {}: {} has {} dimensions; GGUF has at most {}", cursor.what(), field, rank,
                kMaxRank);
  std::vector<int64_t> dims(rank);
  int64_t elements = 1;
  for (uint32_t i = 0; i < rank; ++i) {
    const auto dim = cursor.number<uint64_t>(field);
    if (dim > uint64_t{INT64_MAX} || __builtin_mul_overflow(elements, int64_t(dim), &elements))
      throw error(Code::kBadData, "reading {}: dimension {} of {} is {}; the shape is larger than any memory",
                  cursor.what(), i, field, dim);
    dims[rank - 1 - i] = int64_t(dim);
  }
  const auto number = cursor.number<uint32_t>(field);
  const GgmlTypeInfo* info = find_ggml_type(number);
  if (!info)
    throw error(Code::kUnsupported, "reading {}: {} is of type {}, which is not known", cursor.what(), field, number);
  tensor.type = info->type;
  tensor.shape = Shape(dims);
  const int64_t row = dims.empty() ? 1 : dims.back();
  if (row % info->elements != 0)
    throw error(Code::kBadData, "reading {}: {} has rows of {} elements; {} has blocks of {}", cursor.what(), field,
                row, info->name, info->elements);
  if (__builtin_mul_overflow(uint64_t(elements / info->elements), uint64_t(info->bytes), &tensor.bytes))
    throw error(Code::kBadData, "reading {}: {} {} is larger than any memory", cursor.what(), field,
                tensor.shape.text());
}

uint64_t alignment_of(const GgufMetadata& metadata, const std::string& what) {
  const int64_t alignment = metadata.integer("general.alignment").value_or(32);
  if (alignment < 8 || uint64_t(alignment) > kMaxAlignment || !std::has_single_bit(uint64_t(alignment)))
    throw error(Code::kBadData, "reading {}: metadata 'general.alignment' is {}; expected a power of two from 8 to {}",
                what, alignment, kMaxAlignment);
  return uint64_t(alignment);
}

/// Offsets, which are into the data section, become places in the file.
void place(GgufHeader& header, uint64_t file_bytes, const std::string& what) {
  const uint64_t data_bytes = file_bytes - std::min(file_bytes, header.data_begin);
  std::vector<const GgufTensor*> order;
  for (GgufTensor& tensor : header.tensors) {
    if (tensor.begin % header.alignment != 0)
      throw error(Code::kBadData, "reading {}: tensor '{}' begins at byte {} of the data, no multiple of the alignment "
                  "{}", what, tensor.name, tensor.begin, header.alignment);
    if (tensor.begin > data_bytes || tensor.bytes > data_bytes - tensor.begin)
      throw error(Code::kBadData, "reading {}: tensor '{}' has {} bytes from byte {} of a data section of {} bytes; "
                  "the file is truncated or damaged, fetch it again", what, tensor.name, tensor.bytes, tensor.begin,
                  data_bytes);
    // The data section of a file without data may begin behind its end.
    tensor.begin = tensor.bytes > 0 ? header.data_begin + tensor.begin : 0;
    if (tensor.bytes > 0) order.push_back(&tensor);
  }
  std::sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->begin < b->begin; });
  for (size_t i = 1; i < order.size(); ++i)
    if (order[i]->begin - order[i - 1]->begin < order[i - 1]->bytes)
      throw error(Code::kBadData, "reading {}: tensors '{}' and '{}' overlap", what, order[i - 1]->name,
                  order[i]->name);
}

/// What a part says of its place in a split model; count 1 for a whole one.
struct Split {
  int64_t index = 0, count = 1;
  std::optional<int64_t> tensors;
};

Split split_of(const GgufMetadata& metadata, const std::string& what) {
  const Split split{metadata.integer("split.no").value_or(0), metadata.integer("split.count").value_or(1),
                    metadata.integer("split.tensors.count")};
  if (split.count == 0 && split.index == 0) return {};  // what some writers put into a whole file
  if (split.count < 1 || split.count > kMaxParts || split.index < 0 || split.index >= split.count)
    throw error(Code::kBadData, "reading {}: metadata 'split.no' is {} and 'split.count' is {}; expected the number of "
                "a part, counted from 0, and of all parts", what, split.index, split.count);
  return split;
}

struct Part {
  std::shared_ptr<const MappedFile> file;
  GgufHeader header;
};

Part open_part(const std::string& path) {
  auto file = std::make_shared<const MappedFile>(path);
  GgufHeader header = parse_gguf_header(file->bytes(), path);
  return {std::move(file), std::move(header)};
}

/// Part `index` of the model that `path` is a part of.
Part open_sibling(const std::string& path, int64_t index, int64_t count) {
  const std::string other = *gguf_part_path(path, index, count);
  if (!path_exists(other))
    throw error(Code::kNotFound, "reading {}: part {} of {} is missing; expected it at {}", path, index + 1, count,
                other);
  Part part = open_part(other);
  const Split found = split_of(part.header.metadata, other);
  if (found.index != index || found.count != count)
    throw error(Code::kMismatch, "reading {}: it says that it is part {} of {}; its name says {} of {}", other,
                found.index + 1, found.count, index + 1, count);
  return part;
}

}  // namespace

GgufHeader parse_gguf_header(std::span<const std::byte> file, const std::string& what) {
  Cursor cursor(file, what);
  GgufHeader header;
  header.metadata = GgufMetadata(what);
  const Counts counts = read_counts(cursor);
  header.version = counts.version;
  read_metadata(cursor, counts.pairs, header.metadata);
  header.alignment = alignment_of(header.metadata, what);
  std::set<std::string_view> names;
  for (uint64_t i = 0; i < counts.tensors; ++i) {
    GgufTensor tensor;
    tensor.name = cursor.text(fmt::format("the name of tensor {}", i));
    const std::string field = fmt::format("tensor '{}'", tensor.name);
    read_shape(cursor, tensor, field);
    tensor.begin = cursor.number<uint64_t>(field);
    if (!names.insert(tensor.name).second)
      throw error(Code::kBadData, "reading {}: {} is there twice", what, field);
    header.tensors.push_back(tensor);
  }
  header.data_begin = (cursor.position() + header.alignment - 1) / header.alignment * header.alignment;
  place(header, file.size(), what);
  return header;
}

bool is_gguf(const std::string& path) {
  if (!is_file(path)) return false;
  char magic[kMagic.size()] = {};
  FileReader reader(path);
  return reader.read(magic, sizeof magic) == sizeof magic && std::string_view(magic, sizeof magic) == kMagic;
}

std::optional<std::string> gguf_part_path(const std::string& path, int64_t index, int64_t count) {
  constexpr std::string_view kLikeness = "-00000-of-00000.gguf";
  if (path.size() < kLikeness.size()) return std::nullopt;
  const std::string_view ending = std::string_view(path).substr(path.size() - kLikeness.size());
  for (size_t i = 0; i < kLikeness.size(); ++i)
    if (kLikeness[i] == '0' ? ending[i] < '0' || ending[i] > '9' : ending[i] != kLikeness[i]) return std::nullopt;
  return fmt::format("{}-{:05}-of-{:05}.gguf", path.substr(0, path.size() - kLikeness.size()), index + 1, count);
}

void GgufFile::add_part(std::shared_ptr<const MappedFile> file, GgufHeader header) {
  for (GgufTensor& tensor : header.tensors) {
    tensor.part = files_.size();
    if (!index_.emplace(tensor.name, tensors_.size()).second)
      throw error(Code::kBadData, "reading {}: tensor '{}' is in another part too", file->path(), tensor.name);
    tensors_.push_back(tensor);
  }
  files_.push_back(std::move(file));
}

GgufFile GgufFile::open(const std::string& path) {
  GgufFile model;
  Part given = open_part(path);
  const Split split = split_of(given.header.metadata, path);
  if (split.count > 1 && gguf_part_path(path, split.index, split.count) != path)
    throw error(Code::kMismatch, "reading {}: it is part {} of {} of a split model; such parts are named "
                "NAME-{:05}-of-{:05}.gguf, and the others are found by their names", path, split.index + 1,
                split.count, split.index + 1, split.count);
  for (int64_t i = 0; i < split.count; ++i) {
    Part part = i == split.index ? std::move(given) : open_sibling(path, i, split.count);
    if (i == 0) {
      model.version_ = part.header.version;
      model.alignment_ = part.header.alignment;
      model.metadata_ = part.header.metadata;
    }
    model.add_part(std::move(part.file), std::move(part.header));
  }
  if (split.tensors && *split.tensors != int64_t(model.tensors_.size()))
    throw error(Code::kMismatch, "reading {}: the parts hold {} tensors; metadata 'split.tensors.count' is {}", path,
                model.tensors_.size(), *split.tensors);
  return model;
}

const GgufTensor* GgufFile::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

std::span<const std::byte> GgufFile::data(const GgufTensor& tensor) const {
  return files_[tensor.part]->bytes().subspan(tensor.begin, tensor.bytes);
}

}  // namespace espalier
