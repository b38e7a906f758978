#include "bench/temporary_folder.h"

#include <cstdlib>
#include <filesystem>

#include "base/error.h"

namespace espalier {

TemporaryFolder::TemporaryFolder() {
  std::error_code failure;
  path_ = (std::filesystem::temp_directory_path(failure) / "espalier-bench-XXXXXX").string();
  if (failure || !::mkdtemp(path_.data())) throw errno_error("making a temporary folder " + path_);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;  // a folder left behind in /tmp is no reason to fail
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace espalier
