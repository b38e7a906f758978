#include "base/error.h"

#include <cerrno>
#include <cstring>

namespace espalier {
namespace {

constexpr CodeInfo kTable[] = {
    {Code::kInternal, "internal", 1, 500, "a fault of ours; please report it with `espalier doctor`"},
    {Code::kUsage, "usage", 2, 400, "a wrong flag, setting or argument"},
    {Code::kNotFound, "not_found", 3, 404, "a file, model or id that is not there"},
    {Code::kBadData, "bad_data", 4, 422, "outside bytes that are not what they claim to be"},
    {Code::kUnsupported, "unsupported", 5, 501, "valid, but Espalier does not do it"},
    {Code::kMismatch, "mismatch", 6, 409, "two things that do not fit each other"},
    {Code::kIo, "io", 7, 500, "reading or writing failed"},
    {Code::kNoSpace, "no_space", 8, 507, "the disk or the memory is full"},
    {Code::kPeer, "peer", 9, 502, "another process or host failed"},
    {Code::kTimeout, "timeout", 10, 504, "it took too long"},
    {Code::kBusy, "busy", 11, 429, "all places are taken for now; try again later"},
    {Code::kInterrupted, "interrupted", 130, 499, "the user asked to stop"},
};

}  // namespace

std::span<const CodeInfo> error_table() { return kTable; }

const CodeInfo& code_info(Code code) {
  for (const CodeInfo& row : kTable)
    if (row.code == code) return row;
  return kTable[0];
}

Error errno_error(const std::string& attempt) {
  const int number = errno;
  const bool disk = number == ENOSPC || number == EDQUOT || number == EFBIG;  // EFBIG: more than `ulimit -f` allows
  const Code code = disk || number == ENOMEM ? Code::kNoSpace : number == ENOENT ? Code::kNotFound : Code::kIo;
  return Error(code, attempt + ": " + std::strerror(number) + (disk ? "; make room and try again" : ""));
}

}  // namespace espalier
