#include "tidy/rules.h"

#include <regex>

#include "tidy/floors.h"

namespace espalier::tidy {
namespace {

constexpr size_t kMaxColumns = 120, kMaxFileLines = 600, kMaxTestLines = 800, kMaxFunctionLines = 70;

/// Characters of a UTF-8 text: the bytes that do not continue one.
size_t columns(std::string_view line) {
  size_t count = 0;
  for (char c : line) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return count;
}

/// Reports every line that matches.
void report_matches(const std::vector<std::string>& lines, const Source& source, const std::regex& pattern,
                    const std::string& message, std::vector<Finding>& findings) {
  for (size_t i = 0; i < lines.size(); ++i) {
    std::smatch match;
    if (std::regex_search(lines[i], match, pattern))
      findings.push_back({source.path, i + 1, "'" + match.str() + "': " + message});
  }
}

/// The checker's own words are in its own files.
bool is_tidy_itself(const Source& source) { return source.in("tests/tidy"); }

}  // namespace

void check_sizes(const Source& source, std::vector<Finding>& findings) {
  const bool prose = source.path.ends_with(".md") || source.path.ends_with(".json");
  const size_t max_lines = source.is_test() ? kMaxTestLines : kMaxFileLines;
  if (source.lines.size() > max_lines && !prose)
    findings.push_back(
        {source.path, source.lines.size(), "the file has more than " + std::to_string(max_lines) + " lines"});
  for (size_t i = 0; i < source.lines.size() && source.is_cpp(); ++i)
    if (columns(source.lines[i]) > kMaxColumns)
      findings.push_back({source.path, i + 1, "the line has more than 120 columns"});
  if (!source.is_cpp()) return;
  for (const Body& body : function_bodies(source))
    if (body.end - body.begin + 1 > kMaxFunctionLines)
      findings.push_back({source.path, body.begin,
                          "the function has " + std::to_string(body.end - body.begin + 1) + " lines, more than 70"});
}

void check_names(const Source& source, std::vector<Finding>& findings) {
  static const std::regex kVague(R"((^|[/_])(utils?|helpers?|common|misc|managers?)([/_.]|$))");
  if (std::regex_search(source.path, kVague))
    findings.push_back({source.path, 0, "a name that says nothing about what is in it"});
}

void check_banned_words(const Source& source, std::vector<Finding>& findings) {
  static const std::regex kLeft(R"(\b(TODO|FIXME|XXX|HACK)\b|not (yet )?implemented)");
  static const std::regex kMachine(R"(-m(arch|tune|cpu)=native|-mavx512)");
  if (is_tidy_itself(source)) return;
  report_matches(source.lines, source, kLeft, "finish it, or file it elsewhere", findings);
  report_matches(source.code, source, kMachine, "the program would die on another machine", findings);
}

void check_silence(const Source& source, std::vector<Finding>& findings) {
  static const std::regex kNoise(
      R"((\b(v?f?printf|f?puts|putchar|fputc)\s*\()|\bstd::c(out|err|log)\b)"
      R"(|(^|[^_\w.>:])(::|std::)?(quick_)?exit\s*\()");
  const bool may = source.in("src/cli/") || source.path == "src/base/check.cc" || !source.in("src/");
  if (!may) report_matches(source.code, source, kNoise, "the library never prints and never exits", findings);
}

void check_catches(const Source& source, std::vector<Finding>& findings) {
  static const std::regex kCatch(R"(\bcatch\s*\()");
  if (!source.in("src/") || source.is_test() || source.path == "src/cli/main.cc") return;
  for (size_t i = 0; i < source.code.size(); ++i) {
    const bool named = source.lines[i].find("//") != std::string::npos &&
                       source.lines[i].find("edge", source.lines[i].find("//")) != std::string::npos;
    if (std::regex_search(source.code[i], kCatch) && !named)
      findings.push_back({source.path, i + 1, "a catch without a comment on its line that says which edge it is"});
  }
}

void check_heavy_headers(const Source& source, std::vector<Finding>& findings) {
  static const std::regex kHeavy(
      R"(#\s*include\s*"base/json_value\.h")"
      R"(|#\s*include\s*<(toml\+\+.*|simdjson.*|sqlite3\.h|CLI/.*|httplib\.h|spdlog/.*)>)"
      R"(|#\s*include\s*<(regex|iostream)>)");
  static const std::regex kKernels(R"(#\s*include\s*[<"](hwy/.*|dnnl.*|oneapi/.*|immintrin\.h|omp\.h)[>"])");
  if (!source.in("src/")) return;
  if (source.is_header()) report_matches(source.lines, source, kHeavy, "too heavy for a header", findings);
  static const std::regex kJson(R"(#\s*include\s*<nlohmann/json\.hpp>)");
  if (source.path != "src/base/json_value.h")
    report_matches(source.lines, source, kJson, "base/json_value.h spares compiling it again", findings);
  if (!source.in("src/kernels/"))
    report_matches(source.lines, source, kKernels, "only src/kernels/ uses this library", findings);
}

void check_headers(const Source& source, std::vector<Finding>& findings) {
  const bool ours = source.in("src/") || source.in("tests/");
  if (!ours || !source.is_cpp() || source.lines.empty()) return;
  if (source.is_header()) {
    bool once = false;
    for (const std::string& line : source.lines) once |= line == "#pragma once";
    const bool per_target = source.path.ends_with("-inl.h");  // Highway includes these once for each instruction set
    if (!once && !per_target) findings.push_back({source.path, 1, "no #pragma once"});
    if (!source.lines[0].starts_with("//"))
      findings.push_back({source.path, 1, "no comment that says what the file is"});
    return;
  }
  std::string own = source.path.substr(source.in("src/") ? 4 : 6);
  own = own.substr(0, own.rfind('.')) + ".h";
  const auto includes = quoted_includes(source);
  for (size_t i = 1; i < includes.size(); ++i)
    if (includes[i].first == own)
      findings.push_back({source.path, includes[i].second, "its own header is not the first"});
}

void check_tests_assert(const Source& source, std::vector<Finding>& findings) {
  static const std::regex kTest(R"(^\s*(TEST|TEST_F|TEST_P)\s*\()");
  static const std::regex kAsserts(
      R"(EXPECT_|ASSERT_|GTEST_SKIP|ADD_FAILURE|\b(expect|check|compare|refuse|verify)_?\w*\s*[(<])");
  if (!source.is_test()) return;
  size_t tests = 0;
  for (const Body& body : function_bodies(source)) {
    if (!std::regex_search(body.head, kTest)) continue;
    ++tests;
    bool asserts = false;
    for (size_t i = body.begin - 1; i < body.end; ++i) asserts |= std::regex_search(source.code[i], kAsserts);
    if (!asserts) findings.push_back({source.path, body.begin, "a test that asserts nothing"});
  }
  if (tests == 0) findings.push_back({source.path, 1, "no TEST in a file of tests"});
}

std::vector<Finding> check_source(const Source& source) {
  constexpr Rule kRules[] = {check_sizes,   check_names,         check_banned_words, check_silence,
                             check_catches, check_heavy_headers, check_headers,      check_tests_assert};
  std::vector<Finding> findings;
  for (Rule rule : kRules) rule(source, findings);
  return findings;
}

void check_dependencies(std::string_view cmake, std::string_view architecture, std::vector<Finding>& findings) {
  static const std::regex kFind(R"((find_package|find_library|pkg_check_modules)\(\s*(\w+)(\s+(\w+))?)");
  const Source source = make_source("cmake/dependencies.cmake", cmake);
  for (size_t i = 0; i < source.code.size(); ++i) {
    std::smatch match;
    if (!std::regex_search(source.code[i], match, kFind)) continue;
    const std::string name = match[1] == "find_library" ? match[4] : match[2];
    if (architecture.find("| " + name + " |") == std::string_view::npos)
      findings.push_back({source.path, i + 1, "'" + name + "' has no row in docs/ARCHITECTURE.md"});
  }
}

}  // namespace espalier::tidy
