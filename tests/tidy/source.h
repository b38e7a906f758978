// A source file as the tidy rules see it: its lines, and the same lines with comments and literals blanked.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace espalier::tidy {

struct Source {
  std::string path;                 ///< from the repository's root, with '/'
  std::vector<std::string> lines;   ///< as they are
  std::vector<std::string> code;    ///< comments, and what strings and characters hold, replaced by spaces

  std::string name() const { return path.substr(path.rfind('/') + 1); }
  bool in(std::string_view folder) const { return path.starts_with(folder); }
  bool is_header() const { return path.ends_with(".h"); }
  bool is_test() const { return path.ends_with("_test.cc"); }
  bool is_cpp() const { return is_header() || path.ends_with(".cc"); }
};

/// One breach of a rule.
struct Finding {
  std::string path;
  size_t line = 0;  ///< from 1
  std::string message;
};

Source make_source(std::string path, std::string_view text);

/// The text files among the given files and under the given folders of the repository, sorted.
std::vector<Source> read_tree(const std::string& root, const std::vector<std::string>& places);

/// A function's body: the lines of its braces, from 1.
struct Body {
  size_t begin = 0, end = 0;
  std::string head;  ///< what stands before the opening brace
};

/// Finds function bodies by their braces: a block that follows a parenthesis at the level of namespaces and classes.
/// Blocks and lambdas inside belong to the function around them.
std::vector<Body> function_bodies(const Source& source);

}  // namespace espalier::tidy
