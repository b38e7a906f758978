// Tables, pages and charts: what a reader would see is checked by shape; how it looks was checked by eye.
#include <gtest/gtest.h>

#include <cmath>

#include "report/html_page.h"
#include "report/svg_chart.h"
#include "report/table.h"
#include "report/terminal_chart.h"

namespace espalier {
namespace {

size_t count(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t i = text.find(what); i != std::string::npos; i = text.find(what, i + what.size())) ++n;
  return n;
}

/// Every element that opens closes again, in order. Enough of XML for what is made here.
bool balanced(const std::string& text) {
  std::vector<std::string> open;
  for (size_t i = text.find('<'); i != std::string::npos; i = text.find('<', i + 1)) {
    const size_t end = text.find('>', i);
    if (end == std::string::npos) return false;
    const std::string tag = text.substr(i + 1, end - i - 1), name = tag.substr(0, tag.find_first_of(" \n"));
    if (tag.front() == '!' || tag.back() == '/' || name == "meta") continue;
    if (tag.front() != '/') open.push_back(name);
    else if (open.empty() || "/" + open.back() != name) return false;
    else open.pop_back();
  }
  return open.empty();
}

TEST(Table, AlignsByCharactersNotBytes) {
  Table table({{"name"}, {"count", true}});
  table.row({"caf\xC3\xA9", "5"});
  table.row({"x"});
  EXPECT_EQ(table.text(), "name  count\ncaf\xC3\xA9      5\nx\n");
  EXPECT_EQ(table.text(false), "caf\xC3\xA9  5\nx\n");
}

TEST(Table, MarkdownAndHtmlEscape) {
  Table table({{"a|b"}, {"n", true}});
  table.row({"<x> | y\nz", "1"});
  EXPECT_EQ(table.markdown(), "| a\\|b | n |\n|---|---:|\n| <x> \\| y<br>z | 1 |\n");
  EXPECT_NE(table.html().find("<td>&lt;x&gt; | y\nz</td><td class=\"number\">1</td>"), std::string::npos);
  EXPECT_TRUE(balanced(table.html()));
}

TEST(HtmlPage, EscapesEverythingAndIsSelfContained) {
  HtmlPage page("a <b> & 'c'");
  page.figure("<n>", "<v>", "\x01");
  page.heading("<h>");
  page.paragraph("<p>");
  page.preformatted("</pre><script>alert(1)</script>");
  page.fold("<s>", "</details>");
  page.figure("last", "1");
  const std::string html = page.html();
  EXPECT_TRUE(balanced(html)) << html;
  EXPECT_EQ(html.find("<script"), std::string::npos);
  EXPECT_EQ(html.find("http"), std::string::npos) << "a page must open without a network";
  EXPECT_NE(html.find("<title>a &lt;b&gt; &amp; &#39;c&#39;</title>"), std::string::npos);
}

TEST(SvgChart, DrawsLinesGapsAndDots) {
  Series s{"loss <1>", {1, 2, 3, 4, 5, 6}, {3, 2, NAN, 1, NAN, 0.5}};
  const std::string svg = svg_chart({.title = "Loss & more", .x_label = "step"}, std::vector{s});
  EXPECT_TRUE(balanced(svg)) << svg;
  EXPECT_EQ(count(svg, "<path"), 1u);
  EXPECT_EQ(count(svg, "<circle"), 2u) << "points alone between gaps";
  EXPECT_NE(svg.find("loss &lt;1&gt;"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  s.dots = true;
  EXPECT_EQ(count(svg_chart({}, std::vector{s}), "<circle"), 4u);
}

TEST(SvgChart, OddInputs) {
  const Series empty{"none", {}, {}}, one{"one", {1}, {5}}, gaps{"gaps", {1, 2}, {NAN, INFINITY}},
      huge{"huge", {1, 1e12}, {1e-30, 1e30}}, negative{"negative", {0, -1}, {-1, 0}};
  for (const bool log : {false, true})
    for (const Series& s : {empty, one, gaps, huge, negative}) {
      const std::string svg = svg_chart({.title = s.name, .log_x = log, .log_y = log}, std::vector{s});
      EXPECT_TRUE(balanced(svg)) << svg;
      EXPECT_EQ(svg.find("nan"), std::string::npos) << svg;
      EXPECT_EQ(svg.find("\"inf"), std::string::npos) << svg;
    }
  EXPECT_NE(svg_chart({}, std::vector{empty}).find("nothing was logged"), std::string::npos);
}

TEST(SvgChart, AMillionPointsMakeASmallFile) {
  Series s{"s", {}, {}};
  for (int i = 0; i < 1000000; ++i) s.x.push_back(i), s.y.push_back(std::sin(i * 0.1));
  EXPECT_LT(svg_chart({}, raw_and_smoothed(s)).size(), 60000u);
}

TEST(TerminalChart, FitsItsSize) {
  Series s{"loss", {}, {}};
  for (int i = 1; i < 500; ++i) s.x.push_back(i), s.y.push_back(1 / double(i));
  s.y[100] = NAN;
  for (const bool utf8 : {true, false}) {
    const std::string text = terminal_chart({.title = "t", .x_label = "step", .width = 60, .height = 12, .utf8 = utf8},
                                            std::vector{s});
    EXPECT_EQ(count(text, "\n"), 12u) << text;
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = text.find('\n', begin);
      const std::string row = text.substr(begin, end - begin);
      const auto columns = std::count_if(row.begin(), row.end(), [](char c) { return (c & 0xC0) != 0x80; });
      EXPECT_LE(columns, row.find("step") == std::string::npos ? 60 : 66) << row;
      EXPECT_EQ(row.find('\x1b'), std::string::npos);
      begin = end + 1;
    }
    for (const char c : text) EXPECT_TRUE(utf8 || c == '\n' || (c >= 32 && c < 127));
  }
}

TEST(TerminalChart, AFallingLineFalls) {
  const Series s{"x", {0, 1}, {1, 0}};
  const std::string text = terminal_chart({.width = 30, .height = 8, .utf8 = false}, std::vector{s});
  size_t before = 0;
  for (size_t begin = text.find('\n') + 1, row = 0; row < 5; ++row) {
    const size_t end = text.find('\n', begin), mark = text.substr(begin, end - begin).rfind('*');
    ASSERT_NE(mark, std::string::npos) << text;
    EXPECT_GE(mark, before);
    before = mark;
    begin = end + 1;
  }
  EXPECT_FALSE(terminal_chart({}, {}).empty());
}

}  // namespace
}  // namespace espalier
