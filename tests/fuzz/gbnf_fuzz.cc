// Grammars: any bytes are read or refused; and under a grammar that is read, the mask is what each token alone says.
// What stands behind a zero byte is a text to follow.
#include <cstdlib>

#include "base/error.h"
#include "fuzz.h"
#include "text/gbnf.h"
#include "text/grammar_matcher.h"

namespace {

std::shared_ptr<const espalier::TokenTrie> tokens() {
  static const auto trie = std::make_shared<const espalier::TokenTrie>(std::vector<std::string_view>{
      "a", "b", "ab", "ba", "\"", "\":", "{\"", "}", "1", "10", " ", "\n", "\xC3", "\xA9", "\xC3\xA9", "", "aaaaaaaa"});
  return trie;
}

void follow(const std::shared_ptr<const espalier::Grammar>& grammar, std::string_view text) {
  espalier::GrammarMatcher matcher(std::make_shared<espalier::TokenGrammar>(grammar, tokens()));
  for (size_t i = 0; i < 20; ++i) {
    const espalier::TokenSet allowed = matcher.allowed();
    for (int32_t id = 0; id < int32_t(tokens()->vocab_size()); ++id) {
      const std::string_view bytes = tokens()->bytes(id);
      if (allowed.has(id) != (!bytes.empty() && matcher.accepts(bytes))) std::abort();
    }
    if (i >= text.size() || !matcher.advance(text.substr(i, 1))) return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(input.find('\0'), input.size());
  try {
    follow(espalier::parse_gbnf(input.substr(0, end), "input"), input.substr(std::min(end + 1, size)));
  } catch (const espalier::Error&) {  // the edge: an Error is a right answer to bad input
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  const std::string zero(1, '\0');
  return {
      "root ::= \"a\" [b-d]+ | (x | .)* # comment\nx ::= \"\\x41\\u00e9\" | [^a\\]\\-]{2,3}\n" + zero + "abab",
      "root ::= \"{\" (\"\\\"\" [ab]* \"\\\"\" \":\" root)? \"}\" | [0-9]{1,4}" + zero + "{\"ab\":10}",
      "root ::= \"a\" root \"b\" | \"a\" root \"a\" | " + zero + "aaab",
      "root ::= a b\na ::= (\"a\"?)* \"b\"{0,3}\nb ::= | a b2\nb2 ::= \"b\" b | \"a\"" + zero + "abab",
      "root ::= root \"a\" | \"b\"",
      "root ::= ((((\"a\"{9,}){3}){2})?)+ | [^\\x00-\\U0010FFFF]",
      "root ::= \xC3\xA9 \"\xC3\xA9\" [\xC3\xA0-\xC3\xBC] <t>" + zero + "\xC3\xA9",
      "root ::= \"a\"{0,1000000}",
  };
}
