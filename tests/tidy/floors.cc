#include "tidy/floors.h"

#include <regex>

namespace espalier::tidy {
namespace {

constexpr const char* kTable = "docs/ARCHITECTURE.md";

struct Row {
  int floor = 0;
  size_t line = 0;
  std::string folder, allowed;
};

std::string trim(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t"), end = text.find_last_not_of(" \t");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

std::vector<Row> rows_of(std::string_view markdown) {
  static const std::regex kRow(R"(^\|\s*(\d+)\s*\|\s*`(\w+)`\s*\|.*\|([^|]*)\|\s*$)");
  std::vector<Row> rows;
  const Source text = make_source(kTable, markdown);
  for (size_t i = 0; i < text.lines.size(); ++i) {
    std::smatch match;
    if (std::regex_match(text.lines[i], match, kRow))
      rows.push_back({std::stoi(match[1]), i + 1, match[2], trim(match[3])});
  }
  return rows;
}

class Reader {
 public:
  Reader(const std::vector<Row>& rows, std::vector<Finding>& findings) : rows_(rows), findings_(findings) {}

  /// What the last column of `row` allows; `floors` holds the rows of the floors below, and those above on its own.
  std::set<std::string> allowed(const Row& row, const Floors& floors) {
    static const std::regex kBelow(R"(^all below( but (\w+))?$)");
    std::smatch match;
    std::set<std::string> folders;
    if (row.allowed == "–") return folders;
    if (std::regex_match(row.allowed, match, kBelow)) {
      for (const Row& other : rows_)
        if (other.floor < row.floor && other.folder != match[2]) folders.insert(other.folder);
      return folders;
    }
    add_names(row, floors, folders);
    return folders;
  }

 private:
  void add_names(const Row& row, const Floors& floors, std::set<std::string>& folders) {
    static const std::string kAndBelow = "and what is below these";
    std::string names = row.allowed;
    const bool and_below = names.ends_with(kAndBelow);
    if (and_below) names.resize(names.size() - kAndBelow.size());
    static const std::regex kComma(R"(\s*,\s*)");
    for (std::sregex_token_iterator it(names.begin(), names.end(), kComma, -1), end; it != end; ++it) {
      const std::string name = trim(*it);
      if (name.empty()) continue;
      const auto found = floors.find(name);
      if (found == floors.end()) {
        findings_.push_back({kTable, row.line, "'" + row.folder + "' may not include '" + name +
                                                   "', which is no folder of a lower floor"});
        continue;
      }
      folders.insert(name);
      if (and_below) folders.insert(found->second.begin(), found->second.end());
    }
  }

  const std::vector<Row>& rows_;
  std::vector<Finding>& findings_;
};

std::string folder_of(const std::string& path) { return path.substr(0, path.find('/')); }

}  // namespace

Floors parse_floors(std::string_view markdown, std::vector<Finding>& findings) {
  const std::vector<Row> rows = rows_of(markdown);
  Reader reader(rows, findings);
  Floors floors;
  int floor = 0;
  for (const Row& row : rows) {
    if (row.floor < floor) findings.push_back({kTable, row.line, "the rows are not in the order of the floors"});
    floor = row.floor;
    if (!floors.emplace(row.folder, reader.allowed(row, floors)).second)
      findings.push_back({kTable, row.line, "a second row for '" + row.folder + "'"});
  }
  if (rows.empty()) findings.push_back({kTable, 0, "no floors table"});
  return floors;
}

std::vector<std::pair<std::string, size_t>> quoted_includes(const Source& source) {
  static const std::regex kInclude(R"re(^\s*#\s*include\s*"([^"]+)")re");
  std::vector<std::pair<std::string, size_t>> includes;
  for (size_t i = 0; i < source.lines.size(); ++i) {
    std::smatch match;
    if (std::regex_search(source.lines[i], match, kInclude)) includes.emplace_back(match[1], i + 1);
  }
  return includes;
}

void check_floors(const std::vector<Source>& sources, const Floors& floors, std::vector<Finding>& findings) {
  std::set<std::string> paths;
  for (const Source& source : sources) paths.insert(source.path);
  for (const Source& source : sources) {
    if (!source.in("src/") || !source.is_cpp()) continue;
    const std::string folder = folder_of(source.path.substr(4));
    const auto row = floors.find(folder);
    if (row == floors.end()) {
      findings.push_back({source.path, 0, "the folder '" + folder + "' has no row in the floors table"});
      continue;
    }
    for (const auto& [include, line] : quoted_includes(source)) {
      const std::string target = folder_of(include);
      if (target == "hwy") continue;  // Highway is included with quotes, so that its order is kept
      if (!paths.contains("src/" + include))
        findings.push_back({source.path, line, "\"" + include + "\" is not a path from src/"});
      else if (target != folder && !row->second.contains(target))
        findings.push_back({source.path, line, "'" + folder + "' may not include '" + target + "'"});
    }
  }
}

}  // namespace espalier::tidy
