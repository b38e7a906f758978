// The grammars that requests ask for, compiled once for a model's vocabulary: clients send the same schema again and
// again, and what one answer found of the tokens allowed serves the next.
#pragma once
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "serve/openai_request.h"
#include "text/token_grammar.h"
#include "text/tokenizer.h"

namespace espalier {

/// Any thread.
class Grammars {
 public:
  explicit Grammars(const Tokenizer& tokenizer) : trie_(std::make_shared<TokenTrie>(tokenizer)) {}

  /// Null where nothing is asked. Throws ApiError 400 naming what is wrong with the schema or the grammar.
  std::shared_ptr<const TokenGrammar> find(const OutputConstraint& constraint);

 private:
  using Key = std::pair<OutputConstraint::Kind, std::string>;
  std::shared_ptr<const TokenTrie> trie_;
  std::mutex mutex_;
  std::list<std::pair<Key, std::shared_ptr<const TokenGrammar>>> recent_;  // the latest first
};

}  // namespace espalier
