#include "text/gbnf.h"

#include <gtest/gtest.h>

#include "text/grammar_case.h"

namespace espalier {
namespace {

struct Case {
  const char* grammar;
  std::vector<std::string> yes, open, no;
};

void expect_cases(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.grammar);
    const auto grammar = parse_gbnf(c.grammar, "test");
    for (const std::string& text : c.yes) EXPECT_EQ(follow(*grammar, text), "yes") << text;
    for (const std::string& text : c.open) EXPECT_EQ(follow(*grammar, text), "open") << text;
    for (const std::string& text : c.no) EXPECT_EQ(follow(*grammar, text).substr(0, 5), "no at") << text;
  }
}

TEST(Gbnf, EveryPartOfTheNotation) {
  expect_cases({
      {R"(root ::= "a" "bc" | "d")", {"abc", "d"}, {"", "a", "ab"}, {"b", "abcd", "dd"}},
      {"root ::= [a-cx] [^a-c] [\\]\\-^]", {"ad]", "x\n-", "cé^"}, {"a", "cé"}, {"d", "aa"}},
      {"root ::= \"x\"* \"y\"+ \"z\"?", {"y", "xxyyz"}, {"", "xx"}, {"z", "yzz", "yx"}},
      {"root ::= \"x\"{2} \"y\"{1,3} \"z\"{2,}", {"xxyzz", "xxyyyzzzz"}, {"x", "xxyz"}, {"xxx", "xxyyyy", "y"}},
      {"root ::= (\"a\" | \"b\" (\"c\" | ))+", {"a", "bc", "abbca"}, {""}, {"c", "acc"}},
      {"root ::= .{2} \"!\"", {"ab!", "日本!", "\n\n!"}, {"a", "日本"}, {"abc", "\xff"}},
      {"# a comment\nroot ::= a # here\n  | b\n\na ::= \"1\" |\n \"2\"\nb ::= ( # open\n \"3\"\n)\n",
       {"1", "2", "3"}, {""}, {"4"}},
      {"root ::= a b\na ::= | \"x\"\nb ::=\nc ::= \"unused\"", {"", "x"}, {}, {"y"}},
      {R"G(root ::= "\x41\u00e9\U0001F642\n\t\r\\\"" [\x30-\x39\u3042])G",
       {"Aé🙂\n\t\r\\\"5", "Aé🙂\n\t\r\\\"あ"}, {"A"}, {"B"}},
      {"root ::= \"é\" [é-ü] [^é]", {"ééa", "éüü"}, {"é", "\xc3"}, {"ééé", "\xc4"}},
      {"root ::= item_1 list-2\nitem_1 ::= \"a\"\nlist-2 ::= \"b\"", {"ab"}, {"a"}, {"b"}},
      {"root::=\"a\"|\"b\"\r\nx::=\"c\"\r\n", {"a", "b"}, {""}, {"c"}},
      {"root ::= \"a\"?*{2}", {"", "aaa"}, {}, {"b"}},
      {"root ::= \"\" \"a\"{0} \"b\"{0,0}", {""}, {}, {"a"}},
  });
}

TEST(Gbnf, Nesting) {
  expect_cases({
      {"root ::= \"(\" root \")\" | \"x\"", {"x", "((x))"}, {"((", "((x)"}, {")", "(x))", "xx"}},
      {"root ::= \"a\" root \"b\" | ", {"", "ab", "aaabbb"}, {"aab"}, {"b", "abb", "aba"}},
      // Palindromes: any place may be the middle.
      {"root ::= [ab] | \"a\" root \"a\" | \"b\" root \"b\" | ", {"", "a", "abba", "ababa"}, {"aab", "abaa"}, {"c"}},
      // Right recursion behind an optional part, and rules that call each other.
      {"root ::= a?\na ::= \"1\" b | \"2\" a\nb ::= \",\" a | ", {"", "1", "2221,21"}, {"2", "1,"}, {"11", ","}},
      {"root ::= e\ne ::= t (\"+\" t)*\nt ::= \"(\" e \")\" | [0-9]+",
       {"1+(22+3)", "((1))"}, {"1+", "(1"}, {"+", "1)"}},
  });
}

// Reads like C: comments, blocks, expressions; and JSON as many write it down.
TEST(Gbnf, LargerGrammars) {
  expect_cases({
      {R"G(root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws
array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws     ::= | " " | "\n" [ \t]{0,20}
)G",
       {"{}", "{ \"a\": [1, 2.5e-7 , true], \"é\\u00e9\": {\"x\":\nnull}}\n"},
       {"{\"a\":", "{\"a\": [[[["},
       {"[", "{,", "{\"a\":tru1", "{\"a\"1", "{\"\\x"}},
      {R"G(root ::= (stmt "\n")+
stmt ::= "if (" expr ") {\n" (stmt "\n")* "}" | ident " = " expr ";"
expr ::= term (" " [-+*/] " " term)*
term ::= ident | [0-9]+ | "(" expr ")"
ident ::= [a-z_] [a-z_0-9]*
)G",
       {"a = 1;\n", "if (x + (1 * y)) {\nb_1 = 2;\n}\n"}, {"a = 1;", "if (x) {\n"}, {"1 = a", "a = ;"}},
  });
}

TEST(Gbnf, ErrorsNameLineAndColumn) {
  const std::string kEscapes = R"(g.gbnf:1:11: this escape is not known; there are \n \r \t \\ \" \[ \] \- \^ \xHH )"
                               R"(\uHHHH \UHHHHHHHH)";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "g.gbnf: there is no rule 'root'; it says what the whole text is"},
      {"a ::= \"x\"", "g.gbnf: there is no rule 'root'; it says what the whole text is"},
      {"root ::= b", "g.gbnf:1:10: the rule 'b' is used and not defined"},
      {"root = \"a\"", "g.gbnf:1:6: found '=', expected ::= behind the name of a rule"},
      {"root ::= \"a\nx ::= \"b\"", "g.gbnf:1:10: this text is not closed before the end of its line"},
      {"root ::= \"é\" )", "g.gbnf:1:14: found ')', expected the end of the line, or another part of the rule"},
      {"root ::= (\"a\"\n", "g.gbnf:1:10: this parenthesis is never closed"},
      {"root ::= ( ]", "g.gbnf:1:12: found ']', expected ')' or another part of the group"},
      {"root ::= [a", "g.gbnf:1:10: this class of characters is not closed before the end of its line"},
      {"root ::= []", "g.gbnf:1:10: this class has no character"},
      {"root ::= [z-a]", "g.gbnf:1:11: this range ends before it begins"},
      {"root ::= \"a\"{3,2}", "g.gbnf:1:13: the repetition is from 3 to 2 times"},
      {"root ::= \"a\"{-1}", "g.gbnf:1:14: found '-', expected a number"},
      {"root ::= \"a\"{1", "g.gbnf:1:15: found the end of the grammar, expected '}'"},
      {"root ::= \"a\"{99999999999999999999}", "g.gbnf:1:14: the number is too large"},
      {"root ::= \"\\q\"", kEscapes},
      {"root ::= \"\\u12\"", "g.gbnf:1:11: this escape needs 4 hexadecimal digits"},
      {"root ::= \"\\uD800\"", "g.gbnf:1:11: this escape is no character"},
      {"root ::= \"a\"\n\nroot ::= \"b\"", "g.gbnf:3:1: the rule 'root' is defined twice"},
      {"root ::= <think>", "g.gbnf:1:10: references to tokens are not supported; write the text of the token"},
      {"root ::= \"a\" +\n* b", "g.gbnf:2:1: found '*', expected the name of a rule"},
      {"root ::= \"\xff\"", "g.gbnf:1:1: the grammar is not UTF-8"},
      {"root ::= \"\\", kEscapes},
  };
  for (const auto& [grammar, message] : cases) EXPECT_EQ(gbnf_refusal(grammar), message) << grammar;
}

TEST(Gbnf, LeftRecursionIsRefusedByName) {
  EXPECT_EQ(gbnf_refusal("root ::= e\ne ::= e \"+\" | \"1\""),
            "g.gbnf: left recursion, e -> e: the rule begins with itself before anything is read; write it as a "
            "repetition, such as a ::= b (\"+\" b)*");
  const std::string hidden = gbnf_refusal("root ::= a\na ::= sp b\nb ::= sp a \"x\" | \"y\"\nsp ::= \" \"*");
  EXPECT_NE(hidden.find("left recursion, "), std::string::npos) << hidden;
  EXPECT_NE(hidden.find("a -> b -> a"), std::string::npos) << hidden;
  EXPECT_EQ(gbnf_refusal("root ::= sp root \"x\" | \"y\"\nsp ::= \" \"+"), "accepted");
}

TEST(Gbnf, RulesThatNeverEndAreRefused) {
  EXPECT_EQ(gbnf_refusal("root ::= \"a\" b\nb ::= \"x\" b"),
            "g.gbnf: no text of the rule 'b' ever ends; give it a choice that does");
  EXPECT_EQ(gbnf_refusal("root ::= [^\\x00-\\U0010FFFF]"),
            "g.gbnf: no text of the rule 'root' ever ends; give it a choice that does");
}

TEST(Gbnf, HostileGrammarsEndInAnError) {
  const auto has = [](const std::string& grammar, const std::string& part) {
    EXPECT_NE(gbnf_refusal(grammar).find(part), std::string::npos) << gbnf_refusal(grammar);
  };
  has("root ::= " + std::string(100'000, '(') + "\"a\"", "nested more than 128 deep");
  has("root ::= \"a\"{0,1000000}", "more than 524288 nodes");
  has("root ::= (\"a\"{1000}){1000}", "more than 524288 nodes");
  has("root ::= (\"\"{1000000}){1000000}", "more than 4194304 parts");
  has("root ::= \"a\"{4294967296}", "more than 524288 nodes");
  // Each rule is the last one twice: 2^60 letters, and calls keep it small.
  std::string doubling = "root ::= r0\n";
  for (int i = 0; i < 60; ++i) doubling += fmt::format("r{} ::= r{} r{}\n", i, i + 1, i + 1);
  const auto grammar = parse_gbnf(doubling + "r60 ::= \"a\"", "test");
  EXPECT_LT(grammar->size(), 5000u);
  EXPECT_EQ(follow(*grammar, std::string(1000, 'a')), "open");
  // A chain of rules as long as it likes.
  std::string chain = "root ::= r0\n";
  for (int i = 0; i < 20'000; ++i) chain += fmt::format("r{} ::= r{} | \"x\"+\n", i, i + 1);
  EXPECT_EQ(follow(*parse_gbnf(chain + "r20000 ::= \"y\"+", "test"), "yyy"), "yes");
}

// Every prefix can be read in exponentially many ways, which are one state with shared stacks.
TEST(Gbnf, AmbiguityStaysPolynomial) {
  const auto nested = parse_gbnf("root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"a\" root | \"d\"", "test");
  EXPECT_EQ(follow(*nested, std::string(300, 'a') + "d" + std::string(150, 'b') + std::string(150, 'c')), "yes");
  EXPECT_EQ(follow(*nested, std::string(300, 'a') + "d" + std::string(301, 'b')), "no at 601");
  const auto sums = parse_gbnf("root ::= \"x\" | \"x\" root root | \"x\" root root root", "test");
  EXPECT_EQ(follow(*sums, std::string(200, 'x')).substr(0, 2), "ye");
  const auto loops = parse_gbnf("root ::= (((\"a\"*)*)* | (\"a\"? | \"aa\")+)*", "test");
  EXPECT_EQ(follow(*loops, std::string(2000, 'a')), "yes");
}

TEST(Gbnf, CutAnywhereIsReadOrRefused) {
  const std::string text = "root ::= (\"é\\u00e9\" [^a-z\\]]{2,3} | .)* x # c\n"
                           "x ::= \"\\x41\" | \n y\ny ::= [\\U0001F642]+";
  for (size_t n = 0; n <= text.size(); ++n) EXPECT_NE(gbnf_refusal(text.substr(0, n)), "") << n;
}

}  // namespace
}  // namespace espalier
