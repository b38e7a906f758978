// For the tests of this folder: a temporary folder that is removed again, a log that is kept, and the message
// of an expected Error.
#pragma once
#include <stdlib.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"

namespace espalier {

class TestFolder {
 public:
  TestFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "espalier-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// Writes a file without waiting for the disk (which ext4 does when a file is truncated rather than made anew).
inline void put_file(const std::string& path, std::string_view bytes) {
  std::filesystem::remove(path);
  FileWriter file(path);
  file.write(bytes);
  file.close(false);
}

/// Keeps what is logged.
class CollectingLog : public Log {
 public:
  std::vector<std::string> lines;

 private:
  void write(LogLevel, const std::string& message) override { lines.push_back(message); }
};

/// Runs fn, expects an Error of this code whose message contains `part`.
template <class F>
void expect_error(Code code, const std::string& part, F&& fn) {
  try {
    fn();
    ADD_FAILURE() << "no error; expected one with: " << part;
  } catch (const Error& e) {  // the edge: the error is what is tested
    EXPECT_EQ(code_info(e.code()).name, code_info(code).name) << e.what();
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
  }
}

}  // namespace espalier
