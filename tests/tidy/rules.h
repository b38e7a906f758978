// The rules of docs/STYLE.md that a machine can check, one function each. They see a file at a time.
#pragma once
#include <string_view>
#include <vector>

#include "tidy/source.h"

namespace espalier::tidy {

using Rule = void (*)(const Source&, std::vector<Finding>&);

/// Lines have at most 120 columns, files at most 600 lines (tests 800), functions at most 70.
void check_sizes(const Source& source, std::vector<Finding>& findings);
/// No file called utils, helpers, common, misc or manager.
void check_names(const Source& source, std::vector<Finding>& findings);
/// Nothing left to do, no compiling for this machine only.
void check_banned_words(const Source& source, std::vector<Finding>& findings);
/// The library never prints or exits.
void check_silence(const Source& source, std::vector<Finding>& findings);
/// A catch names its edge on its line.
void check_catches(const Source& source, std::vector<Finding>& findings);
/// Heavy headers stay in .cc files, the kernels' libraries in kernels/.
void check_heavy_headers(const Source& source, std::vector<Finding>& findings);
/// Headers begin with a comment and #pragma once; a .cc includes its own header first.
void check_headers(const Source& source, std::vector<Finding>& findings);
/// Every test asserts something.
void check_tests_assert(const Source& source, std::vector<Finding>& findings);

/// All of the above.
std::vector<Finding> check_source(const Source& source);

/// The libraries of cmake/dependencies.cmake have their row in the dependency table.
void check_dependencies(std::string_view cmake, std::string_view architecture, std::vector<Finding>& findings);

}  // namespace espalier::tidy
