// Token shards: whatever is accepted has tokens and document starts that lie inside the file.
#include "formats/token_shards.h"

#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "fuzz.h"

using espalier::TokenShardLayout;

namespace {

void parse(std::span<const std::byte> file) {
  try {
    const TokenShardLayout layout = espalier::parse_token_shard(file, "input", true);
    const uint64_t width = uint64_t(espalier::dtype_size(layout.dtype));
    if (layout.token_count < 0 || layout.document_count < 0) std::abort();
    if (layout.tokens_begin > file.size() || uint64_t(layout.token_count) > (file.size() - layout.tokens_begin) / width)
      std::abort();
    if (layout.starts_begin > file.size() || uint64_t(layout.document_count) > (file.size() - layout.starts_begin) / 8)
      std::abort();
  } catch (const espalier::Error&) {  // the edge: an Error is a right answer to bad input
  }
}

std::string own_shard(uint32_t width, uint64_t tokens, const std::vector<uint64_t>& starts) {
  std::string file(128 + (tokens * width + 7) / 8 * 8 + starts.size() * 8, '\0');
  const auto put = [&](size_t at, uint64_t value, size_t bytes) { std::memcpy(file.data() + at, &value, bytes); };
  std::memcpy(file.data(), "ESPTOKEN", 8);
  put(8, 1, 4);
  put(12, 128, 4);
  put(16, width, 4);
  put(24, 1000, 8);
  put(40, tokens, 8);
  put(48, starts.size(), 8);
  for (size_t i = 0; i < starts.size(); ++i) put(file.size() - (starts.size() - i) * 8, starts[i], 8);
  put(120, espalier::hash64(file.data(), 120), 8);
  return file;
}

std::string llmc_shard(int32_t magic, int32_t version, int32_t count, size_t bytes) {
  std::string file(1024 + bytes, '\0');
  const int32_t header[3] = {magic, version, count};
  std::memcpy(file.data(), header, sizeof header);
  return file;
}

}  // namespace

// Once as it is, and once with the header's checksum put right, which no mutation would manage.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  parse(std::as_bytes(std::span(data, size)));
  if (size < 128) return 0;
  std::vector<uint8_t> repaired(data, data + size);
  const uint64_t checksum = espalier::hash64(data, 120);
  std::memcpy(repaired.data() + 120, &checksum, 8);
  parse(std::as_bytes(std::span(repaired)));
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {own_shard(2, 5, {0, 3}), own_shard(4, 6, {0, 1, 5}), own_shard(2, 0, {}), std::string("\1\0\2\0", 4),
          llmc_shard(20240520, 1, 3, 6), llmc_shard(20240801, 7, 2, 8)};
}
