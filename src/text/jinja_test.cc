// The interpreter against what transformers' Jinja renders (tests/golden/chat, see tools/make_chat_golden.py), its
// errors, and its limits.
#include "text/jinja.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json_value.h"

namespace espalier {
namespace {

OrderedJson golden() {
  const std::string path = std::string(ESP_SOURCE_DIR) + "/tests/golden/chat/cases.json";
  return parse_ordered_json(read_file(path), path);
}

JinjaOptions at_golden_time() {
  std::tm now{};
  now.tm_year = 124;  // 2024-07-26 15:04:05, a Friday
  now.tm_mon = 6;
  now.tm_mday = 26;
  now.tm_hour = 15;
  now.tm_min = 4;
  now.tm_sec = 5;
  now.tm_wday = 5;
  return {.now = now};
}

std::string render(const std::string& source, const OrderedJson& variables = OrderedJson::object(),
                   const JinjaOptions& options = {}) {
  return JinjaTemplate::parse(source, "t").render(variables, options);
}

void expect_error(const std::string& source, Code code, const std::string& part) {
  try {
    ADD_FAILURE() << source << " gave " << render(source).substr(0, 200);
  } catch (const Error& e) {
    EXPECT_EQ(code_info(e.code()).name, std::string(code_info(code).name)) << source << ": " << e.what();
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << source << ": " << e.what();
  }
}

std::string repeat(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

TEST(Jinja, ShortTemplatesGiveWhatTransformersGives) {
  const OrderedJson all = golden();
  int compared = 0, refused = 0;
  for (const OrderedJson& entry : all["short"]) {
    const std::string source = entry[0].get<std::string>();
    try {
      const std::string text = render(source, all["variables"], at_golden_time());
      EXPECT_EQ(OrderedJson(text), entry[1]) << source;
      ++compared;
    } catch (const Error& e) {
      EXPECT_TRUE(entry[1].is_null()) << source << ": " << e.what();
      ++refused;
    }
  }
  EXPECT_GT(compared, 75);
  EXPECT_GT(refused, 40);
}

TEST(Jinja, ErrorsNameTheTemplateTheLineAndTheConstruct) {
  expect_error("a\nb\n{% if x %}", Code::kBadData, "reading t, line 3: the template ends where elif or else or endif");
  expect_error("\n\n{{ x.y }}", Code::kBadData, "rendering t, line 3: 'x' is undefined");
  expect_error("\n{% include 'x' %}", Code::kUnsupported, "line 2: the tag 'include'");
  expect_error("{% extends 'x' %}", Code::kUnsupported, "'extends'");
  expect_error("{{ 'x'|urlize }}", Code::kUnsupported, "the filter 'urlize'");
  expect_error("{{ 'x'|uper }}", Code::kBadData, "did you mean 'upper'");
  expect_error("{% fro i in x %}", Code::kBadData, "did you mean 'for'");
  expect_error("{{ 9223372036854775807 + 1 }}", Code::kUnsupported, "64 bits");
  expect_error("{{ 9223372036854775808 }}", Code::kUnsupported, "64 bits");
  expect_error("\n{{ raise_exception('roles must alternate') }}", Code::kUsage,
               "line 2: the template refuses the conversation: roles must alternate");
  expect_error("{{ [].append(1) }}", Code::kBadData, "'append' of 'list' object is unsafe");
  expect_error("{{ '\\N{DASH}' }}", Code::kUnsupported, "\\N");
}

TEST(Jinja, EndlessAndHugeWorkIsAnError) {
  const std::string loop = "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}";
  expect_error(loop, Code::kBadData, "loops for ever");
  expect_error("{{ range(1000000) }}", Code::kBadData, "Range too big");
  expect_error("{{ range(-9223372036854775807, 9223372036854775807) }}", Code::kBadData, "Range too big");
  expect_error("{{ 'x' * 1000000000000 }}", Code::kBadData, "text of more than");
  expect_error("{{ [0] * 1000000000000 }}", Code::kBadData, "steps");
  expect_error("{{ '{:>999999999999}'.format('x') }}", Code::kBadData, "width");
  expect_error("{{ '%999999999999s' % 'x' }}", Code::kBadData, "width");
  expect_error("{{ 'x'.center(9223372036854775807) }}", Code::kBadData, "text of more than");
  expect_error("{% set s = namespace(t='x') %}{% for i in range(99) %}{% set s.t = s.t + s.t %}{% endfor %}",
               Code::kBadData, "text of more than");
  expect_error("{% set s = namespace(l=[]) %}{% for i in range(99999) %}{% set s.l = s.l + ['" + repeat("x", 5000) +
                   "' ~ i] %}{% endfor %}",
               Code::kBadData, "template");  // a quadratic list: memory or steps, whichever ends first
  expect_error("{% set s = namespace(l=[]) %}{% for i in range(9999) %}{% set s.l = [s.l, s.l] %}{% endfor %}",
               Code::kBadData, "nested more than 100 deep");
  // A list that holds itself twice, 60 deep, has 2^60 leaves to print, to compare and to dump.
  const std::string shared = "{% set s = namespace(l=[1], m=[1]) %}{% for i in range(60) %}{% set s.l = [s.l, s.l] %}"
                             "{% set s.m = [s.m, s.m] %}{% endfor %}";
  expect_error(shared + "{{ s.l }}", Code::kBadData, "template");
  expect_error(shared + "{{ s.l == s.m }}", Code::kBadData, "steps");
  expect_error(shared + "{{ s.l|tojson }}", Code::kBadData, "template");
}

TEST(Jinja, DeepNestingIsAnErrorAndNoCrash) {
  expect_error("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", Code::kBadData, "a macro that calls itself");
  expect_error("{% macro f() %}{% call f() %}{% endcall %}{{ caller }}{% endmacro %}{{ f() }}", Code::kBadData, "deep");
  expect_error("{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}", Code::kBadData, "deep");
  expect_error("{{ " + repeat("(", 5000) + "1" + repeat(")", 5000) + " }}", Code::kBadData, "deep");
  expect_error("{{ " + repeat("-", 5000) + "1 }}", Code::kBadData, "deep");
  expect_error("{{ " + repeat("not ", 5000) + "1 }}", Code::kBadData, "deep");
  expect_error("{{ " + repeat("[", 5000) + repeat("]", 5000) + " }}", Code::kBadData, "deep");
  expect_error("{{ 1" + repeat(" + 1", 5000) + " }}", Code::kBadData, "deep");
  expect_error("{{ 1" + repeat("|string", 5000) + " }}", Code::kBadData, "deep");
  expect_error("{% set " + repeat("(", 5000) + "a" + repeat(")", 5000) + " = 1 %}", Code::kBadData, "deep");
  expect_error(repeat("{% if 1 %}", 5000), Code::kBadData, "deep");
  EXPECT_EQ(render("{{ 1" + repeat(" + 1", 200) + " }}"), "201");
}

TEST(Jinja, WhatHoldsItselfIsNotPrintedForEver) {
  expect_error("{% set n = namespace() %}{% set n.x = n %}{{ n }}", Code::kBadData, "deep");
  // 90 lists around each other, every one with the namespace that holds the outermost.
  expect_error("{% set s = namespace(l=[1]) %}{% for i in range(90) %}{% set s.l = [s.l, s] %}{% endfor %}{{ s.l }}",
               Code::kBadData, "deep");
  expect_error("{% set s = namespace(l=[1]) %}{% for i in range(90) %}{% set s.l = [s, s.l] %}{% endfor %}{{ s.l }}",
               Code::kBadData, "deep");
  expect_error("{% set s = namespace(l=1) %}{% set s.l = {'a': s} %}{{ s.l|tojson }}", Code::kBadData, "not JSON");
  EXPECT_EQ(render("{% set s = namespace(l=1) %}{% set s.l = [s] %}{{ s.l == [s] }}{{ s in s.l }}"), "TrueTrue");
}

TEST(Jinja, LongChainsOfThingsThatHoldEachOtherEnd) {
  // Each would be taken down by deep recursion, or never, if their holders were not kept to the end.
  const auto chain = [](const std::string& link) {
    return render("{% set n = namespace(x=0) %}{% for i in range(20000) %}" + link + "{% endfor %}done");
  };
  EXPECT_EQ(chain("{% set n.x = namespace(x=n.x) %}"), "done");
  EXPECT_EQ(chain("{% set n.x = cycler(n.x) %}{% set n.n = n %}").substr(0, 4), "done");
  EXPECT_EQ(chain("{% set old = n.x %}{% macro m() %}{{ old }}{% endmacro %}{% set n.x = m %}"), "done");
  EXPECT_EQ(chain("{% set old = n.x %}{% if loop.changed(old) %}{% set n.x = loop %}{% endif %}"), "done");
  EXPECT_EQ(chain("{% set old = n.x %}{% for j in [1] recursive %}{% set n.x = loop %}{% endfor %}"), "done");
}

TEST(Jinja, ATemplateIsRenderedFromManyPlacesWithTheSameText) {
  const JinjaTemplate t = JinjaTemplate::parse("{% set n = namespace(i=0) %}{% for m in l %}{% set n.i = n.i + m %}"
                                               "{{ n.i }},{% endfor %}", "t");
  const OrderedJson variables = {{"l", {1, 2, 3}}};
  const JinjaTemplate copy = t;
  EXPECT_EQ(t.render(variables), "1,3,6,");
  EXPECT_EQ(copy.render(variables), "1,3,6,") << "nothing of a rendering is left behind";
}

TEST(Jinja, IllFormedTextOfATemplateIsRepaired) {
  EXPECT_EQ(render("a\xff{{ 'b\xc3' }}"), "a\xEF\xBF\xBD" "b\xEF\xBF\xBD");
  EXPECT_EQ(render("{{ '\\ud83d' }}"), "\xEF\xBF\xBD") << "half of a surrogate pair";
}

TEST(Jinja, EveryCutOfATemplateIsReadOrRefused) {
  const std::string source = "{% set a = [1, {'b': 2}] %}{%- for x in a if x is mapping %}{{ x.b|string ~ 'c'[0:1] }}"
                             "{% else %}{# d #}{% endfor -%}{% macro m(a, b=1) %}{% raw %}{{{% endraw %}{% endmacro %}";
  int read = 0;
  for (size_t cut = 0; cut <= source.size(); ++cut) {
    try {
      render(source.substr(0, cut));
      ++read;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("line 1"), std::string::npos) << e.what();
    }
  }
  EXPECT_GT(read, 1);
  EXPECT_LT(read, int(source.size()) / 2);
}

}  // namespace
}  // namespace espalier
