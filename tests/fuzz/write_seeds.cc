// Linked into libFuzzer builds: `X_fuzz --write-seeds=DIR` writes the target's seeds into an existing folder and ends.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/file.h"
#include "fuzz.h"

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  constexpr std::string_view kFlag = "--write-seeds=";
  for (int i = 1; i < *argc; ++i) {
    const std::string_view arg = (*argv)[i];
    if (!arg.starts_with(kFlag)) continue;
    const std::string folder(arg.substr(kFlag.size()));
    int count = 0;
    for (const std::string& seed : fuzz_seeds())
      espalier::write_file_atomic(folder + "/seed-" + std::to_string(count++), seed);
    std::printf("%d seeds written to %s\n", count, folder.c_str());
    std::exit(0);
  }
  return 0;
}
