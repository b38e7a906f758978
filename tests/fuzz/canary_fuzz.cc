// The canary: a "parser" with a planted bug. Its smoke run is a test that must fail (WILL_FAIL in CTest); should it
// ever pass, the fuzzing has stopped to find anything.
#include <cstdlib>
#include <cstring>

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  uint32_t count;
  if (size < 8 || std::memcmp(data, "BIRD", 4) != 0) return 0;
  std::memcpy(&count, data + 4, 4);
  if (count == 0xFFFFFFFF) std::abort();  // a size field that nobody checked
  return 0;
}

std::vector<std::string> fuzz_seeds() { return {std::string("BIRD\x02\0\0\0ab", 10)}; }
