// A folder for what a benchmark writes; it goes with the object.
#pragma once
#include <string>

namespace espalier {

class TemporaryFolder {
 public:
  /// In the folder for temporary files (TMPDIR). Throws kIo.
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace espalier
