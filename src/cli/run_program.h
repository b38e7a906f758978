// Test support: runs the espalier binary as a script would, with arguments and standard input, and keeps what it said.
#pragma once
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/file.h"

namespace espalier {

struct ProgramResult {
  int status = -1;  ///< exit status; -1 where a signal ended it
  std::string out, err;
};

inline ProgramResult run_program(const std::vector<std::string>& args, const std::string& input = "") {
  std::string folder = (std::filesystem::temp_directory_path() / "espalier-run-XXXXXX").string();
  EXPECT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string files[] = {folder + "/in", folder + "/out", folder + "/err"};
  write_file_atomic(files[0], input);
  std::vector<const char*> argv = {ESP_BINARY};
  for (const std::string& arg : args) argv.push_back(arg.c_str());
  argv.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    for (int fd = 0; fd < 3; ++fd)
      ::dup2(::open(files[fd].c_str(), fd == 0 ? O_RDONLY : O_WRONLY | O_CREAT | O_TRUNC, 0600), fd);
    ::execv(ESP_BINARY, const_cast<char* const*>(argv.data()));
    ::_exit(127);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  ProgramResult result{WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(files[1]), read_file(files[2])};
  std::filesystem::remove_all(folder);
  return result;
}

}  // namespace espalier
