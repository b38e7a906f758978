#include "train/input_files.h"

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "base/error.h"
#include "base/file.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

bool has_extension(const fs::path& path, const std::vector<std::string>& extensions) {
  const std::string own = path.extension().string();
  return std::any_of(extensions.begin(), extensions.end(), [&](const std::string& extension) {
    return own == extension || (!own.empty() && own.substr(1) == extension);
  });
}

struct Finder {
  const InputFilter& filter;
  std::vector<InputFile> files = {};

  void add(const fs::path& path, const fs::path& name, bool walked) {
    const uint64_t bytes = FileReader(path.string()).size();
    const bool jsonl =
        filter.format == "jsonl" || (filter.format == "auto" && has_extension(path, {"jsonl", "ndjson"}));
    files.push_back({path.string(), name.generic_string(), bytes, jsonl, walked});
  }

  void walk(const fs::path& folder, const fs::path& name) {
    std::error_code failure;
    std::vector<fs::directory_entry> entries;
    for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end; entry.increment(failure))
      entries.push_back(*entry);
    if (failure) throw error(Code::kIo, "reading the folder {}: {}", folder.string(), failure.message());
    std::sort(entries.begin(), entries.end());
    for (const fs::directory_entry& entry : entries) {
      const fs::path file = entry.path().filename();
      if (file.string().starts_with('.') || entry.is_symlink(failure)) continue;
      if (entry.is_directory(failure)) {
        walk(entry.path(), name / file);
      } else if (entry.is_regular_file(failure) && (filter.include.empty() || has_extension(file, filter.include)) &&
                 !has_extension(file, filter.exclude)) {
        add(entry.path(), name / file, true);
      }
    }
  }

  void add_input(const std::string& input) {
    const size_t before = files.size();
    if (is_folder(input)) {
      walk(input, {});
    } else if (path_exists(input)) {
      add(input, fs::path(input).filename(), false);
    } else {
      glob_t found{};
      const std::unique_ptr<glob_t, decltype(&::globfree)> freed(&found, ::globfree);
      if (::glob(input.c_str(), 0, nullptr, &found) != 0)
        throw error(Code::kNotFound, "preparing text: there is no file, folder or glob match '{}'", input);
      for (size_t i = 0; i < found.gl_pathc; ++i) {
        const fs::path path = found.gl_pathv[i];
        if (is_folder(path)) {
          walk(path, path.filename());
        } else {
          add(path, path.filename(), false);
        }
      }
    }
    if (files.size() == before)
      throw error(Code::kNotFound, "preparing text: {} has no file{}", input,
                  filter.include.empty() ? "" : " with an extension of `include`");
  }
};

}  // namespace

std::vector<InputFile> find_input_files(const std::vector<std::string>& inputs, const InputFilter& filter) {
  if (inputs.empty()) throw error(Code::kUsage, "preparing text: no inputs; name files, folders or globs");
  Finder finder{filter};
  for (const std::string& input : inputs) finder.add_input(input);
  return std::move(finder.files);
}

}  // namespace espalier
