// Manifests of checkpoints: whatever is accepted names plain files only.
#include "base/error.h"
#include "formats/checkpoint.h"

#include <cstdlib>

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const espalier::CheckpointManifest manifest = espalier::parse_checkpoint_manifest(text, "input");
    for (const auto& file : manifest.files)
      if (file.name.empty() || file.name.find('/') != std::string::npos) std::abort();
  } catch (const espalier::Error&) {  // the edge: an Error is a right answer to bad input
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {R"({"format": "espalier-checkpoint", "version": 1, "step": 12, "files": []})",
          R"({"format":"espalier-checkpoint","version":1,"step":0,"files":[{"name":"state.json","bytes":10,)"
          R"("xxh3":"0123456789abcdef"},{"name":"tensors.safetensors","bytes":4096,"xxh3":"ffffffffffffffff"}]})"};
}
