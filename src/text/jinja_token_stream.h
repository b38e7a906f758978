// What both halves of the parser stand on: the tokens with a place in them, the errors, and the nodes they make.
#pragma once
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "text/jinja_ast.h"
#include "text/jinja_lexer.h"

namespace espalier::jinja {

class TokenStream {
 public:
  TokenStream(Program& program, std::vector<Token> tokens) : program_(program), tokens_(std::move(tokens)) {}

  template <class... Args>
  Error fail(fmt::format_string<Args...> format, Args&&... args) const {
    return fail_at(Code::kBadData, current().line, fmt::format(format, std::forward<Args>(args)...));
  }
  Error fail_at(Code code, int line, const std::string& message) const {
    return error(code, "reading {}, line {}: {}", program_.what, line, message);
  }

  const Token& current() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token next() {
    const Token token = current();
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  static bool is(const Token& token, TokenType type, std::string_view text) {
    return token.type == type && token.text == text;
  }
  bool at_name(std::string_view name) const { return is(current(), TokenType::kName, name); }
  bool at_operator(std::string_view op) const { return is(current(), TokenType::kOperator, op); }
  bool at(TokenType type) const { return current().type == type; }
  bool skip_name(std::string_view name) { return at_name(name) ? (next(), true) : false; }
  bool skip_operator(std::string_view op) { return at_operator(op) ? (next(), true) : false; }
  void expect_operator(std::string_view op) {
    if (!skip_operator(op)) throw fail("expected '{}', found {}", op, describe(current()));
  }
  void expect(TokenType type, std::string_view what) {
    if (!at(type)) throw fail("expected {}, found {}", what, describe(current()));
    next();
  }
  std::string expect_name() {
    if (!at(TokenType::kName)) throw fail("expected a name, found {}", describe(current()));
    return next().text;
  }

  static std::string describe(const Token& token) {
    switch (token.type) {
      case TokenType::kData: return "text";
      case TokenType::kVariableBegin: return "'{{'";
      case TokenType::kVariableEnd: return "'}}'";
      case TokenType::kBlockBegin: return "'{%'";
      case TokenType::kBlockEnd: return "'%}'";
      case TokenType::kEnd: return "the end of the template";
      default: return "'" + token.text + "'";
    }
  }

  Expr& expression(ExprType type, int line) {
    Expr& node = program_.expressions.emplace_back();
    node.type = type;
    node.line = line;
    return node;
  }
  Statement& statement(StatementType type, int line) {
    Statement& node = program_.statements.emplace_back();
    node.type = type;
    node.line = line;
    return node;
  }
  Program& program() { return program_; }

  /// One level of nesting in the source, as long as it lives.
  class Level {
   public:
    explicit Level(TokenStream& stream) : stream_(stream) {
      if (stream_.levels_ >= kMaxLevels) throw stream_.fail("nested more than {} deep", kMaxLevels);
      ++stream_.levels_;
    }
    ~Level() { --stream_.levels_; }

   private:
    static constexpr int kMaxLevels = 60;
    TokenStream& stream_;
  };

  /// Macros around the current place: a use of `caller` and its like belongs to all of them.
  std::vector<Macro*> macros;

 private:
  Program& program_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int levels_ = 0;
};

// jinja_parse_expression.cc
const Expr* parse_expression(TokenStream& in, bool with_condition = true);
/// One expression, or several with commas between, which are a tuple. `stop` is a name that ends them.
const Expr* parse_tuple(TokenStream& in, bool with_condition = true, std::string_view stop = "");
/// "name", "name(arguments)" and further "|name" behind it: filters over `value`, which may be null.
const Expr* parse_filters(TokenStream& in, const Expr* value, bool starts_with_name);

}  // namespace espalier::jinja
