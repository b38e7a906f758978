// The floors table of docs/ARCHITECTURE.md, and the includes that it allows.
#pragma once
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tidy/source.h"

namespace espalier::tidy {

/// Folder of src/ to the folders that it may include (itself not among them).
using Floors = std::map<std::string, std::set<std::string>>;

/// Reads the rows "| 2 | `formats` | ... | tensor, base |" of a Markdown text. The last column is "–", "all below",
/// "all below but X", or names that may end in "and what is below these". A row that cannot be read, or that names
/// an unknown or a higher folder, becomes a finding.
Floors parse_floors(std::string_view markdown, std::vector<Finding>& findings);

/// The quoted includes of a source, with their lines from 1.
std::vector<std::pair<std::string, size_t>> quoted_includes(const Source& source);

/// Includes of src/ that go to a folder that the table does not allow, or that are not written from src/.
void check_floors(const std::vector<Source>& sources, const Floors& floors, std::vector<Finding>& findings);

}  // namespace espalier::tidy
