// Error: what the world did wrong (a file, a flag, a request, a peer, a disk). One class, one table of codes that
// gives the exit status of the program and the HTTP status of the server. A message says what was attempted, on what,
// what was found, what was expected, and what to do about it.
#pragma once
#include <span>
#include <stdexcept>
#include <string>

#include <fmt/core.h>

namespace espalier {

enum class Code {
  kInternal,     ///< we are at fault
  kUsage,        ///< a wrong flag, setting or argument
  kNotFound,     ///< a file, model or id that is not there
  kBadData,      ///< outside bytes that are not what they claim to be
  kUnsupported,  ///< valid, but we do not do it
  kMismatch,     ///< two things that do not fit each other
  kIo,           ///< reading or writing failed
  kNoSpace,      ///< disk or memory is full
  kPeer,         ///< another process or host failed
  kTimeout,      ///< it took too long
  kBusy,         ///< all places are taken for now
  kInterrupted,  ///< the user asked to stop
};

/// A row of the one error table.
struct CodeInfo {
  Code code;
  const char* name;
  int exit_status;
  int http_status;
  const char* meaning;
};

/// All codes; docs/errors.md is made from it.
std::span<const CodeInfo> error_table();
const CodeInfo& code_info(Code code);

class Error : public std::runtime_error {
 public:
  Error(Code code, const std::string& message) : std::runtime_error(message), code_(code) {}
  Code code() const { return code_; }

 private:
  Code code_;
};

/// throw error(Code::kBadData, "reading {}: ...", path)
template <class... Args>
Error error(Code code, fmt::format_string<Args...> format, Args&&... args) {
  return Error(code, fmt::format(format, std::forward<Args>(args)...));
}

/// An Error for the current errno: "ATTEMPT: Permission denied". A full disk or memory and a file over the limit become
/// kNoSpace, ENOENT kNotFound, everything else kIo.
Error errno_error(const std::string& attempt);

}  // namespace espalier
