// GGUF headers: whatever is accepted describes tensors that lie inside the file, apart from each other, and metadata
// that can be read. What can be turned into numbers is.
#include "formats/gguf.h"

#include <cstdlib>

#include "base/error.h"
#include "formats/gguf_blocks.h"
#include "fuzz.h"

namespace {

using namespace espalier;

void append(std::string& bytes, const auto& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_text(std::string& bytes, std::string_view text) {
  append(bytes, uint64_t{text.size()});
  bytes += text;
}

struct Pair {
  std::string_view key;
  uint32_t type;
  std::string value;
};

struct Tensor {
  std::string_view name;
  std::vector<uint64_t> dims;
  uint32_t type;
  uint64_t offset;
};

std::string file_of(uint32_t version, const std::vector<Pair>& pairs, const std::vector<Tensor>& tensors, size_t data) {
  std::string file = "GGUF";
  append(file, version);
  append(file, uint64_t{tensors.size()});
  append(file, uint64_t{pairs.size()});
  for (const Pair& pair : pairs) {
    append_text(file, pair.key);
    append(file, pair.type);
    file += pair.value;
  }
  for (const Tensor& tensor : tensors) {
    append_text(file, tensor.name);
    append(file, uint32_t(tensor.dims.size()));
    for (const uint64_t dim : tensor.dims) append(file, dim);
    append(file, tensor.type);
    append(file, tensor.offset);
  }
  file.append((32 - file.size() % 32) % 32, '\0');
  return file + std::string(data, 'd');
}

template <class V>
std::string bytes_of(const V& value) {
  std::string bytes;
  append(bytes, value);
  return bytes;
}

std::string array_of(uint32_t element, uint64_t count, std::string_view elements) {
  return bytes_of(element) + bytes_of(count) + std::string(elements);
}

void read_metadata(const GgufMetadata& metadata) {
  for (const std::string_view key : metadata.keys()) {
    const GgufValue& value = *metadata.find(key);
    const bool texts = value.type == GgufValueType::kArray && value.element == GgufValueType::kString;
    if (texts && metadata.texts(key)->size() != value.count) std::abort();
    try {
      if (value.type == GgufValueType::kArray && !texts) metadata.integers(key);
      if (value.type != GgufValueType::kArray) metadata.number(key);
    } catch (const Error&) {  // the edge: another type is a right answer
    }
  }
}

void read_tensors(const GgufHeader& header, std::span<const std::byte> file) {
  uint64_t bytes = 0;
  for (const GgufTensor& tensor : header.tensors) {
    if (tensor.begin > file.size() || tensor.bytes > file.size() - tensor.begin) std::abort();
    bytes += tensor.bytes;
    if (!can_dequantise(tensor.type)) continue;
    std::vector<float> numbers(size_t(tensor.shape.size()));
    dequantise(tensor.type, file.data() + tensor.begin, tensor.shape.size(), numbers.data(), "input");
  }
  if (bytes > file.size()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = std::as_bytes(std::span(data, size));
  try {
    const GgufHeader header = parse_gguf_header(file, "input");
    read_metadata(header.metadata);
    read_tensors(header, file);
  } catch (const Error&) {  // the edge: an Error is a right answer to bad input
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  const std::string text = bytes_of(uint64_t{2}) + "ab";
  return {
      file_of(3, {}, {}, 0),
      file_of(2, {{"general.alignment", 4, bytes_of(uint32_t{32})}, {"s", 8, text}, {"b", 7, "\x01"}},
              {{"w", {2, 3}, 0, 0}, {"q", {32, 2}, 8, 32}, {"e", {0}, 1, 0}}, 100),
      file_of(3, {{"a", 9, array_of(8, 2, text + text)}, {"i", 9, array_of(5, 2, "12345678")}},
              {{"k", {256}, 12, 0}, {"x", {256}, 23, 160}}, 296),
      // Near misses: wrapping dimensions, a nested array, alignments of 0 and 2^31, overlapping and repeated tensors.
      file_of(3, {}, {{"w", {uint64_t{1} << 32, uint64_t{1} << 32}, 0, 0}}, 64),
      file_of(3, {{"a", 9, array_of(9, 1, array_of(4, 1, "1234"))}}, {}, 0),
      file_of(3, {{"general.alignment", 4, bytes_of(uint32_t{0})}}, {{"w", {1}, 0, 0}}, 32),
      file_of(3, {{"general.alignment", 4, bytes_of(uint32_t{1} << 31)}}, {{"w", {1}, 0, 0}}, 32),
      file_of(3, {}, {{"w", {16}, 0, 0}, {"v", {16}, 0, 32}, {"v", {1}, 0, 96}}, 128),
      file_of(3, {{"a", 9, array_of(8, uint64_t{1} << 61, text)}}, {}, 0),
  };
}
