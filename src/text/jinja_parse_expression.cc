// The grammar of expressions, each function a level of precedence, in the order of Jinja's own parser.
#include <charconv>

#include "text/jinja_token_stream.h"

namespace espalier::jinja {
namespace {

const Expr* parse_unary(TokenStream& in, bool with_filters = true);

Expr& binary(TokenStream& in, ExprType type, int line, const Expr* a, const Expr* b) {
  Expr& node = in.expression(type, line);
  node.a = a;
  node.b = b;
  return node;
}

/// Operands with operators of one level between them, from left to right.
template <class Next>
const Expr* left_chain(TokenStream& in, std::initializer_list<std::string_view> operators, Next parse_next) {
  int line = in.current().line;
  const Expr* left = parse_next(in);
  for (;;) {
    std::string_view found;
    for (const std::string_view op : operators)
      if (in.at_operator(op)) found = op;
    if (found.empty()) return left;
    in.next();
    Expr& node = binary(in, ExprType::kBinary, line, left, parse_next(in));
    node.name = found;
    left = &node;
    line = in.current().line;
  }
}

const Expr* parse_power(TokenStream& in) {
  return left_chain(in, {"**"}, [](TokenStream& s) { return parse_unary(s); });
}

const Expr* parse_product(TokenStream& in) { return left_chain(in, {"*", "/", "//", "%"}, parse_power); }

const Expr* parse_concat(TokenStream& in) {
  const int line = in.current().line;
  const Expr* first = parse_product(in);
  if (!in.at_operator("~")) return first;
  Expr& node = in.expression(ExprType::kConcat, line);
  node.items.push_back(first);
  while (in.skip_operator("~")) node.items.push_back(parse_product(in));
  return &node;
}

const Expr* parse_sum(TokenStream& in) { return left_chain(in, {"+", "-"}, parse_concat); }

bool at_not_in(const TokenStream& in) {
  return in.at_name("not") && TokenStream::is(in.ahead(), TokenType::kName, "in");
}

const Expr* parse_comparison(TokenStream& in) {
  const int line = in.current().line;
  const Expr* first = parse_sum(in);
  Expr* node = nullptr;
  for (;;) {
    std::string op;
    for (const std::string_view candidate : {"==", "!=", "<=", ">=", "<", ">"})
      if (op.empty() && in.at_operator(candidate)) op = candidate;
    if (in.at_name("in")) op = "in";
    if (at_not_in(in)) {
      op = "not in";
      in.next();
    }
    if (op.empty()) return node ? node : first;
    in.next();
    if (!node) {
      node = &in.expression(ExprType::kCompare, line);
      node->a = first;
    }
    node->operators.push_back(op);
    node->items.push_back(parse_sum(in));
  }
}

const Expr* parse_not(TokenStream& in) {
  if (!in.at_name("not")) return parse_comparison(in);
  const TokenStream::Level level(in);
  Expr& node = in.expression(ExprType::kNot, in.next().line);
  node.a = parse_not(in);
  return &node;
}

const Expr* parse_and(TokenStream& in) {
  const int line = in.current().line;
  const Expr* left = parse_not(in);
  while (in.skip_name("and")) left = &binary(in, ExprType::kAnd, line, left, parse_not(in));
  return left;
}

const Expr* parse_or(TokenStream& in) {
  const int line = in.current().line;
  const Expr* left = parse_and(in);
  while (in.skip_name("or")) left = &binary(in, ExprType::kOr, line, left, parse_and(in));
  return left;
}

const Expr* parse_condition(TokenStream& in) {
  const TokenStream::Level level(in);
  const int line = in.current().line;
  const Expr* value = parse_or(in);
  while (in.skip_name("if")) {
    Expr& node = binary(in, ExprType::kCondition, line, value, parse_or(in));
    if (in.skip_name("else")) node.c = parse_condition(in);
    value = &node;
  }
  return value;
}

Error bad_call(const TokenStream& in) { return in.fail("invalid syntax for function call expression"); }

CallArguments parse_call(TokenStream& in) {
  CallArguments call;
  in.expect_operator("(");
  for (bool first = true; !in.at_operator(")"); first = false) {
    if (!first) {
      in.expect_operator(",");
      if (in.at_operator(")")) break;
    }
    if (in.skip_operator("*")) {
      if (call.star || call.double_star) throw bad_call(in);
      call.star = parse_expression(in);
    } else if (in.skip_operator("**")) {
      if (call.double_star) throw bad_call(in);
      call.double_star = parse_expression(in);
    } else if (in.at(TokenType::kName) && TokenStream::is(in.ahead(), TokenType::kOperator, "=")) {
      if (call.double_star) throw bad_call(in);
      std::string name = in.next().text;
      in.next();
      call.named.emplace_back(std::move(name), parse_expression(in));
    } else {
      if (call.star || call.double_star || !call.named.empty()) throw bad_call(in);
      call.positional.push_back(parse_expression(in));
    }
  }
  in.expect_operator(")");
  return call;
}

std::string parse_dotted_name(TokenStream& in) {
  std::string name = in.expect_name();
  while (in.skip_operator(".")) name += "." + in.expect_name();
  return name;
}

/// One subscript: an expression or a slice, whose left-out parts are null in `items`.
const Expr* parse_subscribed(TokenStream& in, const Expr* object, int line) {
  const Expr* start = in.at_operator(":") ? nullptr : parse_expression(in);
  if (!in.skip_operator(":")) {
    Expr& node = binary(in, ExprType::kItem, line, object, start);
    return &node;
  }
  const auto part = [&] {
    const bool none = in.at_operator(":") || in.at_operator("]") || in.at_operator(",");
    return none ? nullptr : parse_expression(in);
  };
  Expr& node = in.expression(ExprType::kSlice, line);
  node.a = object;
  node.items = {start, part(), nullptr};
  if (in.skip_operator(":")) node.items[2] = part();
  return &node;
}

const Expr* integer_constant(TokenStream& in, const Token& token) {
  Expr& node = in.expression(ExprType::kConstant, token.line);
  std::string_view digits = token.text;
  int base = 10;
  if (digits.size() > 2 && digits[0] == '0' && !std::isdigit(uint8_t(digits[1]))) {
    base = (digits[1] | 0x20) == 'x' ? 16 : (digits[1] | 0x20) == 'o' ? 8 : 2;
    digits.remove_prefix(2);
  }
  int64_t value = 0;
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (failure == std::errc::result_out_of_range)
    throw in.fail_at(Code::kUnsupported, token.line, "the integer " + token.text + " is beyond 64 bits");
  if (failure != std::errc() || end != digits.data() + digits.size()) throw in.fail("'{}' is no number", token.text);
  node.constant = Value::integer(value);
  return &node;
}

const Expr* parse_subscript(TokenStream& in, const Expr* object) {
  const int line = in.current().line;
  if (in.skip_operator(".")) {
    if (in.at(TokenType::kInteger)) return &binary(in, ExprType::kItem, line, object, integer_constant(in, in.next()));
    Expr& node = in.expression(ExprType::kAttribute, line);
    node.a = object;
    node.name = in.expect_name();
    return &node;
  }
  in.expect_operator("[");
  if (in.at_operator("]")) throw in.fail("expected a subscript, found ']'");
  const Expr* node = parse_subscribed(in, object, line);
  if (in.at_operator(","))
    throw in.fail_at(Code::kUnsupported, line, "a subscript of several expressions");
  in.expect_operator("]");
  return node;
}

const Expr* parse_postfix(TokenStream& in, const Expr* value) {
  for (;;) {
    if (in.at_operator(".") || in.at_operator("[")) {
      value = parse_subscript(in, value);
    } else if (in.at_operator("(")) {
      Expr& node = in.expression(ExprType::kCall, in.current().line);
      node.a = value;
      node.call = parse_call(in);
      value = &node;
    } else {
      return value;
    }
  }
}

const Expr* parse_list(TokenStream& in) {
  Expr& node = in.expression(ExprType::kList, in.current().line);
  in.expect_operator("[");
  while (!in.at_operator("]")) {
    if (!node.items.empty()) in.expect_operator(",");
    if (in.at_operator("]")) break;
    node.items.push_back(parse_expression(in));
  }
  in.expect_operator("]");
  return &node;
}

const Expr* parse_dict(TokenStream& in) {
  Expr& node = in.expression(ExprType::kDict, in.current().line);
  in.expect_operator("{");
  while (!in.at_operator("}")) {
    if (!node.items.empty()) in.expect_operator(",");
    if (in.at_operator("}")) break;
    node.items.push_back(parse_expression(in));
    in.expect_operator(":");
    node.items.push_back(parse_expression(in));
  }
  in.expect_operator("}");
  return &node;
}

/// In parentheses: one expression, or a tuple, which may be empty.
const Expr* parse_parentheses(TokenStream& in) {
  const int line = in.current().line;
  in.expect_operator("(");
  if (in.skip_operator(")")) return &in.expression(ExprType::kTuple, line);
  const Expr* value = parse_tuple(in);
  in.expect_operator(")");
  return value;
}

const Expr* parse_name(TokenStream& in) {
  const Token token = in.next();
  const std::string& name = token.text;
  Expr& node = in.expression(ExprType::kConstant, token.line);
  if (name == "true" || name == "True") {
    node.constant = Value::boolean(true);
  } else if (name == "false" || name == "False") {
    node.constant = Value::boolean(false);
  } else if (name == "none" || name == "None") {
    node.constant = Value::none();
  } else {
    node.type = ExprType::kName;
    node.name = name;
    for (Macro* macro : in.macros) {
      macro->uses_caller |= name == "caller";
      macro->uses_varargs |= name == "varargs";
      macro->uses_kwargs |= name == "kwargs";
    }
  }
  return &node;
}

const Expr* parse_primary(TokenStream& in) {
  const Token& token = in.current();
  if (token.type == TokenType::kName) return parse_name(in);
  if (token.type == TokenType::kInteger) return integer_constant(in, in.next());
  if (token.type == TokenType::kFloat) {
    Expr& node = in.expression(ExprType::kConstant, token.line);
    double value = 0;
    std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
    node.constant = Value::number(value);
    in.next();
    return &node;
  }
  if (token.type == TokenType::kString) {
    Expr& node = in.expression(ExprType::kConstant, token.line);
    std::string text;
    while (in.at(TokenType::kString)) text += in.next().text;  // as in Python and C: neighbours are one
    node.constant = Value::object(Kind::kString, std::make_shared<Text>(std::move(text), false));
    return &node;
  }
  if (in.at_operator("(")) return parse_parentheses(in);
  if (in.at_operator("[")) return parse_list(in);
  if (in.at_operator("{")) return parse_dict(in);
  throw in.fail("expected an expression, found {}", TokenStream::describe(token));
}

/// A test may have one argument without parentheses: `x is divisibleby 3`.
bool at_bare_argument(const TokenStream& in) {
  if (in.at_name("else") || in.at_name("or") || in.at_name("and")) return false;
  return in.at(TokenType::kName) || in.at(TokenType::kString) || in.at(TokenType::kInteger) ||
         in.at(TokenType::kFloat) || in.at_operator("[") || in.at_operator("{");
}

const Expr* parse_test(TokenStream& in, const Expr* value) {
  const int line = in.next().line;
  const bool negated = in.skip_name("not");
  Expr& node = in.expression(ExprType::kTest, line);
  node.a = value;
  node.name = parse_dotted_name(in);
  if (in.at_operator("(")) {
    node.call = parse_call(in);
  } else if (at_bare_argument(in)) {
    if (in.at_name("is")) throw in.fail("tests cannot be chained with 'is'");
    node.call.positional.push_back(parse_postfix(in, parse_primary(in)));
  }
  if (!negated) return &node;
  Expr& inverse = in.expression(ExprType::kNot, line);
  inverse.a = &node;
  return &inverse;
}

const Expr* parse_unary(TokenStream& in, bool with_filters) {
  const TokenStream::Level level(in);
  const Expr* value = nullptr;
  if (in.at_operator("-") || in.at_operator("+")) {
    const ExprType type = in.at_operator("-") ? ExprType::kNegate : ExprType::kPlus;
    Expr& node = in.expression(type, in.next().line);
    node.a = parse_unary(in, false);
    value = &node;
  } else {
    value = parse_primary(in);
  }
  value = parse_postfix(in, value);
  while (with_filters) {
    if (in.at_operator("|")) {
      value = parse_filters(in, value, false);
    } else if (in.at_name("is")) {
      value = parse_test(in, value);
    } else if (in.at_operator("(")) {
      value = parse_postfix(in, value);
    } else {
      break;
    }
  }
  return value;
}

}  // namespace

const Expr* parse_expression(TokenStream& in, bool with_condition) {
  return with_condition ? parse_condition(in) : parse_or(in);
}

const Expr* parse_tuple(TokenStream& in, bool with_condition, std::string_view stop) {
  const int line = in.current().line;
  const auto at_end = [&] {
    return in.at(TokenType::kVariableEnd) || in.at(TokenType::kBlockEnd) || in.at_operator(")") ||
           (!stop.empty() && in.at_name(stop));
  };
  std::vector<const Expr*> items = {parse_expression(in, with_condition)};
  if (!in.at_operator(",")) return items[0];
  while (in.skip_operator(",") && !at_end()) items.push_back(parse_expression(in, with_condition));
  Expr& node = in.expression(ExprType::kTuple, line);
  node.items = std::move(items);
  return &node;
}

const Expr* parse_filters(TokenStream& in, const Expr* value, bool starts_with_name) {
  while (starts_with_name || in.skip_operator("|")) {
    starts_with_name = false;
    Expr& node = in.expression(ExprType::kFilter, in.current().line);
    node.a = value;
    node.name = parse_dotted_name(in);
    if (in.at_operator("(")) node.call = parse_call(in);
    value = &node;
  }
  return value;
}

}  // namespace espalier::jinja
