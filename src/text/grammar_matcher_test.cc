#include "text/grammar_matcher.h"

#include <cmath>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "text/grammar_case.h"

namespace espalier {
namespace {

constexpr const char* kJson = R"(root ::= value
value ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" ws (string ":" ws value ("," ws string ":" ws value)*)? ws "}"
array ::= "[" ws (value ("," ws value)*)? ws "]"
string ::= "\"" ([^"\\\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4}))* "\""
number ::= "-"? ("0" | [1-9] [0-9]*) ("." [0-9]+)? ([eE] [-+]? [0-9]+)?
ws ::= [ \n]*
)";

/// Random bytes of an alphabet, of all lengths to 6, and each byte alone.
std::vector<std::string> random_vocabulary(std::string_view alphabet, uint64_t seed, size_t count) {
  std::vector<std::string> tokens = {""};
  for (const char c : alphabet) tokens.emplace_back(1, c);
  const Rng rng(seed, Purpose::kTest);
  for (uint64_t i = 0; tokens.size() < count; ++i) {
    std::string token;
    for (uint64_t k = 0; k <= rng.below(16 * i, 6); ++k) token += alphabet[rng.below(16 * i + 1 + k, alphabet.size())];
    tokens.push_back(token);
  }
  return tokens;
}

std::shared_ptr<const TokenGrammar> token_grammar(const char* gbnf, const std::vector<std::string>& tokens) {
  const std::vector<std::string_view> views(tokens.begin(), tokens.end());
  return std::make_shared<TokenGrammar>(parse_gbnf(gbnf, "test"), std::make_shared<TokenTrie>(views));
}

// Walks at random through what is allowed; at each place the mask must be what each token alone says.
void expect_masks(const char* gbnf, std::string_view alphabet, uint64_t seed, bool fresh) {
  const std::vector<std::string> tokens = random_vocabulary(alphabet, seed, 400);
  auto grammar = token_grammar(gbnf, tokens);
  GrammarMatcher matcher(grammar);
  const Rng rng(seed, Purpose::kTest, 1);
  std::string text;
  for (uint64_t step = 0; step < 40; ++step) {
    const TokenSet allowed = matcher.allowed();
    std::vector<int32_t> list;
    for (int32_t id = 0; id < int32_t(tokens.size()); ++id) {
      const bool expected = !tokens[size_t(id)].empty() && matcher.accepts(tokens[size_t(id)]);
      ASSERT_EQ(allowed.has(id), expected) << "'" << tokens[size_t(id)] << "' behind '" << text << "'";
      if (expected) list.push_back(id);
    }
    EXPECT_EQ(follow(grammar->grammar(), text) == "yes", matcher.may_end());
    if (list.empty()) return;
    const int32_t id = list[rng.below(step, list.size())];
    ASSERT_TRUE(matcher.advance_token(id));
    text += tokens[size_t(id)];
    if (fresh) {  // nothing is remembered
      grammar = token_grammar(gbnf, tokens);
      matcher = GrammarMatcher(grammar);
      ASSERT_TRUE(matcher.advance(text));
    }
  }
}

TEST(GrammarMatcher, TheMaskIsWhatEachTokenSays) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    expect_masks(kJson, "{}[]\":,\\ 10-e.tru\n\xC3\xA9\xE2\x82\xAC", seed, seed % 4 == 0);
    expect_masks("root ::= [ab] | \"a\" root \"a\" | \"b\" root \"b\" | ", "abc", seed, false);
    expect_masks("root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"a\" root | \"d\"", "abcd", seed, false);
    expect_masks("root ::= x y\nx ::= (\"a\" x \"b\")? \"c\"{2,5}\ny ::= x | \"a\" y \"c\"? | \"b\"*",
                 "abc", seed, false);
    expect_masks("root ::= [^a]{3,9} . \"é\"", "ab\xC3\xA9\xE2\x82\xAC", seed, false);
  }
}

TEST(GrammarMatcher, TokensMayEndInsideACharacter) {
  const auto grammar = token_grammar("root ::= \"é\" [à-ü]", {"\xC3", "\xA9", "\xA9\xC3", "\xC3\xA9", "\xB6", "\xE2"});
  GrammarMatcher m(grammar);
  EXPECT_EQ(m.allowed().count(), 2u);
  EXPECT_TRUE(m.advance_token(0));
  EXPECT_TRUE(m.accepts_token(1));
  EXPECT_TRUE(m.advance_token(2));
  EXPECT_FALSE(m.advance_token(5));
  EXPECT_TRUE(m.advance_token(4));
  EXPECT_TRUE(m.must_end());
  EXPECT_TRUE(m.allowed().empty());
}

TEST(GrammarMatcher, MasksLogitsAndEnds) {
  const auto grammar = token_grammar("root ::= \"a\"+", {"a", "b", "aa", "", "ab"});
  GrammarMatcher m(grammar);
  const std::vector<int32_t> ends = {3, 6, 99};
  std::vector<float> logits = {1, 2, 3, 4, 5, 6, 7};  // more than tokens
  EXPECT_TRUE(m.mask(logits, ends));
  EXPECT_EQ(logits, (std::vector<float>{1, -INFINITY, 3, -INFINITY, -INFINITY, -INFINITY, -INFINITY}));
  EXPECT_TRUE(m.advance_token(2));
  logits = {1, 2, 3, 4, 5, 6, 7};
  EXPECT_TRUE(m.mask(logits, ends));
  EXPECT_EQ(logits, (std::vector<float>{1, -INFINITY, 3, 4, -INFINITY, -INFINITY, 7}));
  EXPECT_FALSE(m.advance_token(1));
  EXPECT_FALSE(m.advance_token(3));
  EXPECT_FALSE(m.advance_token(-1));
  EXPECT_FALSE(m.advance_token(1000));
  EXPECT_TRUE(m.may_end());
  EXPECT_FALSE(m.must_end());
}

TEST(GrammarMatcher, AVocabularyThatCannotSpellItLeavesNothing) {
  GrammarMatcher m(token_grammar("root ::= \"ab\"", {"a", "c"}));
  EXPECT_TRUE(m.advance_token(0));
  std::vector<float> logits = {0, 0};
  EXPECT_FALSE(m.mask(logits, {}));
}

TEST(GrammarMatcher, CopiesGoTheirOwnWay) {
  const std::vector<std::string> tokens = {"a", "b", "c"};
  GrammarMatcher m(token_grammar("root ::= \"a\" (\"b\" \"c\"+ | \"c\" root)", tokens));
  EXPECT_TRUE(m.advance_token(0));
  GrammarMatcher draft = m;
  EXPECT_TRUE(draft.advance_token(1));
  EXPECT_FALSE(draft.accepts_token(0));
  EXPECT_TRUE(m.advance_token(2));
  EXPECT_TRUE(m.accepts_token(0));
  EXPECT_FALSE(m.accepts_token(2));
  m = draft;
  EXPECT_TRUE(m.advance_token(2));
  EXPECT_TRUE(m.may_end());
}

TEST(GrammarMatcher, DeepNestingCostsNoStack) {
  const auto grammar = token_grammar(kJson, {"[", "[[[[", "]", "]]]]", "1"});
  GrammarMatcher m(grammar);
  for (int i = 0; i < 20'000; ++i) ASSERT_TRUE(m.advance("["));
  EXPECT_TRUE(m.accepts_token(0));
  ASSERT_TRUE(m.advance("1"));
  for (int i = 0; i < 19'999; ++i) ASSERT_TRUE(m.advance("]"));
  EXPECT_FALSE(m.allowed().has(3)) << "one is open, not four";
  ASSERT_TRUE(m.advance_token(2));
  EXPECT_TRUE(m.must_end());
}

// A hundred thousand tokens over an exponential automaton: an answer or an error, and soon.
TEST(GrammarMatcher, HostileGrammarsStayWithinTheirBudget) {
  const std::vector<std::string> tokens = random_vocabulary("ab", 1, 100'000);
  GrammarMatcher m(token_grammar("root ::= [ab]* \"a\" [ab]{18}", tokens));
  for (int i = 0; i < 10; ++i) {
    try {
      m.allowed();
      m.advance(i % 3 ? "a" : "b");
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::kUnsupported);
    }
  }
  GrammarMatcher wide(token_grammar("root ::= ([ab]{0,2000} \"b\"){0,100} [ab]{0,2000}", tokens));
  try {
    for (int i = 0; i < 10; ++i) wide.allowed(), wide.advance("ab");
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kUnsupported);
  }
}

}  // namespace
}  // namespace espalier
