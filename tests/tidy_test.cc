// The style and the floors, as tests: first that the checker finds what it must find, then that the tree is tidy.
#include <algorithm>

#include <gtest/gtest.h>

#include "base/file.h"
#include "tidy/floors.h"
#include "tidy/rules.h"
#include "tidy/source.h"

namespace espalier::tidy {
namespace {

std::string text_of(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings)
    text += finding.path + ":" + std::to_string(finding.line) + ": " + finding.message + "\n";
  return text;
}

std::string check(const std::string& path, const std::string& text) {
  return text_of(check_source(make_source(path, text)));
}

std::string repeat(const std::string& line, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += line;
  return text;
}

void expect_found(const std::string& part, const std::string& path, const std::string& text) {
  const std::string findings = check(path, text);
  EXPECT_NE(findings.find(part), std::string::npos) << text << "\nfound only: " << findings;
}

void expect_tidy(const std::string& path, const std::string& text) { EXPECT_EQ(check(path, text), "") << text; }

TEST(TidySource, BlanksCommentsAndLiterals) {
  const Source source = make_source("src/a/x.cc",
                                    "int a = 1'000; // {\n"
                                    "auto s = \"{ // \\\" \" + '{' + '\\'';\n"
                                    "/* { \n { */ int b;\n"
                                    "auto r = R\"x({ \" )x\"; int c;\n");
  for (const std::string& line : source.code) EXPECT_EQ(line.find('{'), std::string::npos) << line;
  EXPECT_NE(source.code[0].find("1'000;"), std::string::npos);
  EXPECT_NE(source.code[3].find("int b;"), std::string::npos);
  EXPECT_NE(source.code[4].find("int c;"), std::string::npos);
}

TEST(TidySource, FindsFunctionBodies) {
  const Source source = make_source("src/a/x.cc",
                                    "namespace espalier {\n"
                                    "constexpr Row kRows[] = {{f(1), 2},\n {3, 4}};\n"
                                    "struct S {\n  int get() const { return 1; }\n  int x = 0;\n};\n"
                                    "template <class T = int>\nbool operator==(T a, T b = {}) {\n"
                                    "  if (a) {\n    g([] { h(); });\n  }\n  return b;\n}\n"
                                    "#define M(x) {\n"
                                    "A::A(int x)\n    : x_(x) {\n}\n"
                                    "}\n");
  const std::vector<Body> bodies = function_bodies(source);
  ASSERT_EQ(bodies.size(), 3u);
  EXPECT_EQ(bodies[0].begin, 5u);
  EXPECT_EQ(bodies[1].begin, 9u);
  EXPECT_EQ(bodies[1].end, 14u);
  EXPECT_EQ(bodies[2].end, 18u);
}

TEST(TidyRules, Sizes) {
  expect_found("more than 120 columns", "src/a/x.cc", std::string(121, 'x'));
  expect_tidy("src/a/x.cc", "// " + repeat("é", 117));
  expect_found("more than 600 lines", "src/a/x.cc", repeat("int x;\n", 601));
  expect_tidy("src/a/x.cc", repeat("int x;\n", 600));
  expect_found("71 lines, more than 70", "src/a/x.cc", "void f() {\n" + repeat("  g();\n", 69) + "}\n");
  expect_tidy("src/a/x.cc", "void f() {\n" + repeat("  g();\n", 68) + "}\n");
  expect_found("71 lines", "src/a/x.h",
               "// A.\n#pragma once\nnamespace a {\nclass A {\n  void f(int = 1) const noexcept {\n" +
                   repeat("    if (x) { g(); }\n", 69) + "  }\n};\n}\n");
}

TEST(TidyRules, Names) {
  for (const char* path : {"src/a/utils.h", "src/a/string_util.cc", "src/helpers/a.cc", "tools/common.py"})
    EXPECT_NE(check(path, "// A.\n#pragma once\n").find("says nothing"), std::string::npos) << path;
  expect_tidy("src/a/commonmark.cc", "int x;\n");
}

TEST(TidyRules, BannedWords) {
  expect_found("TODO", "src/a/x.cc", "// TODO: later\n");
  expect_found("FIXME", "tools/x.py", "# FIXME\n");
  expect_found("not implemented", "src/a/x.cc", "throw E(\"not implemented\");\n");
  expect_found("-march=native", "CMakeLists.txt", "add_compile_options(-march=native)\n");
  expect_tidy("CMakeLists.txt", "# never -march=native\n");
}

TEST(TidyRules, Silence) {
  for (const char* line : {"std::printf(\"x\");", "fprintf(stderr, \"x\");", "std::cout << 1;", "exit(1);",
                           "std::exit(1);", "if (x) ::exit(1);", "std::cerr << 2;", "puts(s);"}) {
    expect_found("never prints", "src/base/x.cc", line);
    expect_tidy("src/cli/x.cc", line);
  }
  for (const char* line : {"std::snprintf(b, 2, s);", "loop.exit(1);", "on_exit(f);", "// printf(x)", "\"exit(1)\";"})
    expect_tidy("src/base/x.cc", line);
}

TEST(TidyRules, Catches) {
  expect_found("which edge", "src/a/x.cc", "} catch (const Error& e) {\n");
  expect_found("which edge", "src/a/x.cc", "} catch (...) {  // ignore\n");
  expect_tidy("src/a/x.cc", "} catch (const toml::error& e) {  // the library's edge: becomes ours\n");
  expect_tidy("src/cli/main.cc", "} catch (const Error& e) {\n");
}

TEST(TidyRules, HeavyHeaders) {
  const std::string start = "// A.\n#pragma once\n";
  expect_found("too heavy", "src/a/x.h", start + "#include \"base/json_value.h\"\n");
  expect_found("too heavy", "src/a/x.h", start + "#include <toml++/toml.h>\n");
  expect_tidy("src/a/x.h", start + "#include <nlohmann/json_fwd.hpp>\n");
  expect_tidy("src/a/x.cc", "#include \"base/json_value.h\"\n");
  expect_found("compiling it again", "src/a/x.cc", "#include <nlohmann/json.hpp>\n");
  expect_found("only src/kernels/", "src/a/x.cc", "#include <hwy/highway.h>\n");
  expect_found("only src/kernels/", "src/a/x.cc", "#include <dnnl.hpp>\n");
  expect_tidy("src/kernels/x.cc", "#include <dnnl.hpp>\n");
}

TEST(TidyRules, Headers) {
  expect_found("no #pragma once", "src/a/x.h", "// A.\nint x;\n");
  expect_found("no comment", "src/a/x.h", "#pragma once\nint x;\n");
  expect_found("own header is not the first", "src/a/x.cc", "#include \"a/y.h\"\n#include \"a/x.h\"\n");
  expect_tidy("src/a/x.cc", "#include \"a/x.h\"\n#include \"a/y.h\"\n");
}

TEST(TidyRules, TestsAssert) {
  expect_found("x_test.cc:1: a test that asserts nothing", "src/a/x_test.cc",
               "TEST(A, B) {\n  f();\n}\nTEST(A, C) {\n  EXPECT_TRUE(f());\n}\n");
  expect_found("no TEST", "src/a/x_test.cc", "int x;\n");
  expect_tidy("src/a/x_test.cc", "TEST(A, B) {\n  ASSERT_EQ(f(), 1);\n}\n");
}

constexpr const char* kTable =
    "| floor | folder | holds | may include |\n|---|---|---|---|\n"
    "| 0 | `base` | x | – |\n"
    "| 1 | `tensor` | x, `y` | base |\n"
    "| 1 | `store` | x | base |\n"
    "| 2 | `models` | x | all below |\n"
    "| 2 | `fleet` | x | store, base |\n"
    "| 3 | `engine` | x | all below but fleet |\n"
    "| 3 | `gym` | x | store, base |\n"
    "| 4 | `eval` | x | engine, gym, and what is below these |\n";

TEST(TidyFloors, ReadsTheTable) {
  std::vector<Finding> findings;
  const Floors floors = parse_floors(kTable, findings);
  EXPECT_EQ(text_of(findings), "");
  using Set = std::set<std::string>;
  EXPECT_EQ(floors.at("base"), Set{});
  EXPECT_EQ(floors.at("models"), (Set{"base", "tensor", "store"}));
  EXPECT_EQ(floors.at("engine"), (Set{"base", "tensor", "store", "models"}));
  EXPECT_EQ(floors.at("eval"), (Set{"base", "tensor", "store", "models", "engine", "gym"}));
}

TEST(TidyFloors, ATableThatGoesUpIsFound) {
  for (const char* row :
       {"| 0 | `low` | x | models |\n", "| 5 | `high` | x | nowhere |\n", "| 5 | `base` | x | – |\n"}) {
    std::vector<Finding> findings;
    parse_floors(std::string(kTable) + row, findings);
    EXPECT_FALSE(findings.empty()) << row;
  }
  std::vector<Finding> findings;
  parse_floors("no table\n", findings);
  EXPECT_FALSE(findings.empty());
}

TEST(TidyFloors, IncludesThatGoUpOrSidewaysAreFound) {
  std::vector<Finding> findings;
  const Floors floors = parse_floors(kTable, findings);
  const auto findings_for = [&](const std::string& path, const std::string& include) {
    const std::vector<Source> sources = {make_source(path, "#include \"" + include + "\"\n"),
                                         make_source("src/models/m.h", ""), make_source("src/base/b.h", ""),
                                         make_source("src/store/s.h", ""), make_source("src/fleet/f.h", "")};
    std::vector<Finding> found;
    check_floors(sources, floors, found);
    return text_of(found);
  };
  EXPECT_EQ(findings_for("src/models/x.cc", "base/b.h"), "");
  EXPECT_EQ(findings_for("src/models/x.cc", "models/m.h"), "");
  EXPECT_NE(findings_for("src/base/x.cc", "models/m.h").find("'base' may not include 'models'"), std::string::npos);
  EXPECT_NE(findings_for("src/tensor/x.h", "store/s.h").find("may not include"), std::string::npos);
  EXPECT_NE(findings_for("src/engine/x_test.cc", "fleet/f.h").find("may not include"), std::string::npos);
  EXPECT_NE(findings_for("src/models/x.cc", "m.h").find("not a path from src/"), std::string::npos);
  EXPECT_NE(findings_for("src/attic/x.cc", "base/b.h").find("no row"), std::string::npos);
}

TEST(TidyDependencies, ALibraryWithoutARowIsFound) {
  std::vector<Finding> findings;
  check_dependencies("find_package(fmt REQUIRED)\n# find_package(old)\n", "| text | fmt | x |\n", findings);
  EXPECT_EQ(text_of(findings), "");
  check_dependencies("find_package(boost)\nfind_library(X_LIB dnnl REQUIRED)\n", "| text | fmt | x |\n", findings);
  EXPECT_EQ(findings.size(), 2u) << text_of(findings);
}

class TidyTree : public testing::Test {
 protected:
  static const std::vector<Source>& tree() {
    static const std::vector<Source> sources =
        read_tree(ESP_SOURCE_DIR, {"src", "tests", "tools", "cmake", "bench", "examples", "recipes", "CMakeLists.txt",
                                   "test.sh", "demo.sh", ".ci"});
    return sources;
  }
  static std::string document(const std::string& path) { return read_file(std::string(ESP_SOURCE_DIR) + "/" + path); }
};

TEST_F(TidyTree, FollowsTheStyle) {
  ASSERT_GT(tree().size(), 50u);
  std::string findings;
  for (const Source& source : tree()) findings += text_of(check_source(source));
  EXPECT_TRUE(findings.empty()) << findings;
}

TEST_F(TidyTree, IncludesGoDownOnly) {
  std::vector<Finding> findings;
  check_floors(tree(), parse_floors(document("docs/ARCHITECTURE.md"), findings), findings);
  EXPECT_EQ(text_of(findings), "");
}

TEST_F(TidyTree, EveryDependencyHasItsRow) {
  std::vector<Finding> findings;
  check_dependencies(document("cmake/dependencies.cmake"), document("docs/ARCHITECTURE.md"), findings);
  EXPECT_EQ(text_of(findings), "");
}

}  // namespace
}  // namespace espalier::tidy
