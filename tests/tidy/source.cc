#include "tidy/source.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <regex>
#include <set>

#include "base/file.h"

namespace espalier::tidy {
namespace {

std::vector<std::string> split_lines(std::string_view text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

/// Overwrites [begin, end) by spaces, but leaves the line breaks.
void blank(std::string& text, size_t begin, size_t end) {
  for (size_t i = begin; i < std::min(end, text.size()); ++i)
    if (text[i] != '\n') text[i] = ' ';
}

/// One past the literal whose opening quote is at `i`.
size_t literal_end(std::string_view text, size_t i) {
  const char quote = text[i];
  for (++i; i < text.size() && text[i] != quote && text[i] != '\n'; ++i)
    if (text[i] == '\\') ++i;
  return i + 1;
}

/// One past the raw string whose opening quote is at `i`.
size_t raw_string_end(std::string_view text, size_t i) {
  const size_t open = text.find('(', i);
  if (open == std::string_view::npos) return text.size();
  const std::string close = ")" + std::string(text.substr(i + 1, open - i - 1)) + "\"";
  const size_t end = text.find(close, open);
  return end == std::string_view::npos ? text.size() : end + close.size();
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

std::string without_comments_and_literals(std::string_view text) {
  std::string code(text);
  for (size_t i = 0; i < text.size();) {
    const bool after_word = i > 0 && is_word(text[i - 1]);
    size_t end = i + 1;
    if (text.substr(i, 2) == "//") {
      end = std::min(text.find('\n', i), text.size());
      blank(code, i, end);
    } else if (text.substr(i, 2) == "/*") {
      end = std::min(text.find("*/", i + 2), text.size() - 2) + 2;
      blank(code, i, end);
    } else if (text[i] == '"' && after_word && text[i - 1] == 'R') {
      end = raw_string_end(text, i);
      blank(code, i + 1, end - 1);
    } else if (text[i] == '"' || (text[i] == '\'' && !after_word)) {  // after a digit it separates, as in 1'000
      end = literal_end(text, i);
      blank(code, i + 1, end - 1);
    }
    i = end;
  }
  return code;
}

/// Scripts: from '#' to the end of the line.
std::string without_hash_comments(std::string_view text) {
  std::string code(text);
  for (size_t i = code.find('#'); i != std::string::npos; i = code.find('#', i + 1))
    blank(code, i, std::min(code.find('\n', i), code.size()));
  return code;
}

bool is_text(const std::filesystem::path& path) {
  static const std::set<std::string> kExtensions = {".cc", ".h", ".py",  ".sh", ".cmake", ".txt",
                                                    ".md", ".js", ".css", ".html", ".toml"};
  return kExtensions.contains(path.extension()) || path.filename() == "run";
}

/// Whether a block after `head`, outside of any function, is a function's body.
bool is_function_head(std::string head) {
  static const std::regex kTemplate(R"(^\s*template\s*<[^;{}]*?>\s*(?=\w))");
  static const std::regex kScope(R"(^\s*(inline\s+)?(namespace|class|struct|enum|union|extern)\b)");
  head = std::regex_replace(head, kTemplate, "");
  if (std::regex_search(head, kScope) || head.find('(') == std::string::npos) return false;
  int depth = 0;
  for (size_t i = 0; i < head.size(); ++i) {
    depth += (head[i] == '(') - (head[i] == ')');
    const bool initializer = head[i] == '=' && depth == 0 && head.find("operator") == std::string::npos;
    if (initializer) return false;
  }
  return true;
}

}  // namespace

Source make_source(std::string path, std::string_view text) {
  Source source;
  source.path = std::move(path);
  source.lines = split_lines(text);
  source.code = split_lines(source.is_cpp() ? without_comments_and_literals(text) : without_hash_comments(text));
  return source;
}

std::vector<Source> read_tree(const std::string& root, const std::vector<std::string>& places) {
  namespace fs = std::filesystem;
  std::vector<std::string> paths;
  for (const std::string& place : places) {
    const fs::path path = fs::path(root) / place;
    if (fs::is_regular_file(path)) paths.push_back(place);
    if (!fs::is_directory(path)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(path)) {
      if (!entry.is_regular_file() || !is_text(entry.path())) continue;
      paths.push_back(fs::relative(entry.path(), root).generic_string());
    }
  }
  std::sort(paths.begin(), paths.end());
  std::vector<Source> sources;
  for (const std::string& path : paths) sources.push_back(make_source(path, read_file(root + "/" + path)));
  return sources;
}

std::vector<Body> function_bodies(const Source& source) {
  std::vector<Body> bodies;
  std::string head;
  int parentheses = 0, depth_in_function = 0;
  Body body;
  for (size_t line = 0; line < source.code.size(); ++line) {
    if (source.code[line].starts_with('#')) continue;
    for (char c : source.code[line] + " ") {
      if (depth_in_function > 0) {
        depth_in_function += (c == '{') - (c == '}');
        if (depth_in_function > 0) continue;
        body.end = line + 1;
        bodies.push_back(body);
        head.clear();
      } else if (parentheses > 0 || c == '(') {  // braces in there are values
        parentheses += (c == '(') - (c == ')');
        head += c;
      } else if (c == '{' && is_function_head(head)) {
        depth_in_function = 1;
        body = {line + 1, 0, head};
      } else if (c == '{' || c == '}' || c == ';') {
        head.clear();
      } else {
        head += c;
      }
    }
  }
  return bodies;
}

}  // namespace espalier::tidy
