// Which files a corpus is made of: files, folders (walked in the order of names) and globs.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace espalier {

struct InputFile {
  std::string path;
  std::string name;  ///< relative to the input it was found under, so that it is the same wherever that stands
  uint64_t bytes = 0;
  bool jsonl = false;   ///< a document a line; otherwise text
  bool walked = false;  ///< found in a folder, not named: skipped where it is binary
};

struct InputFilter {
  std::vector<std::string> include;  ///< extensions of files in folders, with or without the dot; empty: all
  std::vector<std::string> exclude;
  std::string format = "auto";  ///< "text", "jsonl", or by the extension (.jsonl, .ndjson)
};

/// The files of the inputs, in order. Hidden files and folders, and symbolic links, are passed over in folders. Errors:
/// kUsage without inputs, kNotFound for an input that is not there or gives no file.
std::vector<InputFile> find_input_files(const std::vector<std::string>& inputs, const InputFilter& filter);

}  // namespace espalier
