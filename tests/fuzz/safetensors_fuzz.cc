// safetensors headers: whatever is accepted describes tensors that lie inside the file, one after the other.
#include "formats/safetensors.h"

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "fuzz.h"

using espalier::SafetensorsHeader;
using espalier::TensorInfo;

namespace {

std::string file_of(std::string_view header, size_t data_bytes) {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + std::string(header) + std::string(data_bytes, 'd');
}

void parse(std::string_view file) {
  try {
    const SafetensorsHeader header = espalier::parse_safetensors_header(std::as_bytes(std::span(file)), "input");
    uint64_t bytes = 0;
    for (const std::string& name : header.names) {
      const TensorInfo& info = header.tensors.at(name);
      if (info.begin > file.size() || info.bytes > file.size() - info.begin) std::abort();
      if (uint64_t(info.shape.size() * espalier::dtype_size(info.dtype)) != info.bytes) std::abort();
      bytes += info.bytes;
    }
    if (bytes > file.size()) std::abort();
  } catch (const espalier::Error&) {  // the edge: an Error is a right answer to bad input
  }
}

}  // namespace

// Once as a file, and once as a header whose length is right, because mutations rarely keep that.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  parse(input);
  const size_t json = std::min(input.find('{'), size);
  const size_t end = std::min(input.rfind('}'), size - json == 0 ? size : size - 1) + 1;
  if (json < end && end <= size) parse(file_of(input.substr(json, end - json), size - end));
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {
      file_of("{}", 0),
      file_of(R"({"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}   )", 24),
      file_of(R"({"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]},)"
              R"("b":{"dtype":"I64","shape":[],"data_offsets":[8,16]},"c":{"dtype":"BOOL","shape":[0,7],)"
              R"("data_offsets":[16,16]},"d":{"dtype":"U8","shape":[1,2,1],"data_offsets":[16,18]}})", 18),
  };
}
