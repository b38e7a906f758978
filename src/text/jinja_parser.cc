#include "text/jinja_parser.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"
#include "base/suggest.h"
#include "text/jinja_token_stream.h"
#include "text/utf8.h"

namespace espalier::jinja {
namespace {

constexpr size_t kMaxSource = size_t{512} << 10;

class Parser {
 public:
  explicit Parser(TokenStream& in) : in_(in) {}

  Body parse_template() {
    Body body = parse_body({});
    ESP_CHECK(in_.at(TokenType::kEnd), "a body without end tags ends at {}", TokenStream::describe(in_.current()));
    return body;
  }

 private:
  /// Statements up to one of the tags that may end them, whose name is then the current token.
  Body parse_body(std::initializer_list<std::string_view> ends) {
    const TokenStream::Level level(in_);
    Body body;
    for (;;) {
      const int line = in_.current().line;
      if (in_.at(TokenType::kEnd)) {
        if (ends.size() > 0) throw in_.fail("the template ends where {} was expected", fmt::join(ends, " or "));
        return body;
      }
      if (in_.at(TokenType::kData)) {
        in_.statement(StatementType::kData, line).text = in_.next().text;
        body.push_back(&in_.program().statements.back());
      } else if (in_.at(TokenType::kVariableBegin)) {
        in_.next();
        body.push_back(output(line));
        in_.expect(TokenType::kVariableEnd, "'}}'");
      } else {
        in_.expect(TokenType::kBlockBegin, "'{%'");
        if (std::any_of(ends.begin(), ends.end(), [&](std::string_view end) { return in_.at_name(end); })) return body;
        body.push_back(parse_tag());
        in_.expect(TokenType::kBlockEnd, "'%}'");
      }
    }
  }

  const Statement* output(int line) {
    Statement& node = in_.statement(StatementType::kOutput, line);
    node.expr = parse_tuple(in_);
    return &node;
  }

  /// The end of an opening tag, the body, and the name of the tag that ends it, which is taken.
  Body parse_block(std::initializer_list<std::string_view> ends, std::string* ended_by = nullptr) {
    in_.skip_operator(":");
    in_.expect(TokenType::kBlockEnd, "'%}'");
    Body body = parse_body(ends);
    const std::string end = in_.next().text;
    if (ended_by) *ended_by = end;
    return body;
  }

  const Statement* parse_tag() {
    struct Row {
      std::string_view name;
      const Statement* (Parser::*parse)(int line);
    };
    constexpr Row kTags[] = {{"if", &Parser::parse_if},           {"for", &Parser::parse_for},
                             {"set", &Parser::parse_set},         {"with", &Parser::parse_with},
                             {"macro", &Parser::parse_macro},     {"call", &Parser::parse_call_block},
                             {"filter", &Parser::parse_filter},   {"generation", &Parser::parse_generation},
                             {"break", &Parser::parse_break},     {"continue", &Parser::parse_continue},
                             {"print", &Parser::parse_print}};
    constexpr std::string_view kLeftOut[] = {"block", "extends", "include", "from", "import", "autoescape"};
    if (!in_.at(TokenType::kName))
      throw in_.fail("expected the name of a tag, found {}", TokenStream::describe(in_.current()));
    const Token tag = in_.next();
    for (const Row& row : kTags)
      if (tag.text == row.name) return (this->*row.parse)(tag.line);
    if (std::find(std::begin(kLeftOut), std::end(kLeftOut), tag.text) != std::end(kLeftOut))
      throw in_.fail_at(Code::kUnsupported, tag.line, "the tag '" + tag.text + "'");
    std::vector<std::string> names;
    for (const Row& row : kTags) names.emplace_back(row.name);
    throw in_.fail_at(Code::kBadData, tag.line,
                      "Encountered unknown tag '" + tag.text + "'" + did_you_mean(tag.text, names));
  }

  const Statement* parse_if(int line) {
    Statement& node = in_.statement(StatementType::kIf, line);
    std::string end = "elif";
    while (end == "elif") {
      const Expr* condition = parse_tuple(in_, false);
      node.branches.push_back({condition, parse_block({"elif", "else", "endif"}, &end)});
    }
    if (end == "else") node.branches.push_back({nullptr, parse_block({"endif"})});
    return &node;
  }

  const Statement* parse_for(int line) {
    Statement& node = in_.statement(StatementType::kFor, line);
    node.target = parse_target("in");
    if (!in_.skip_name("in")) throw in_.fail("expected 'in', found {}", TokenStream::describe(in_.current()));
    node.expr = parse_tuple(in_, false, "recursive");
    if (in_.skip_name("if")) node.condition = parse_expression(in_);
    node.recursive = in_.skip_name("recursive");
    std::string end;
    ++loops_;
    node.body = parse_block({"endfor", "else"}, &end);
    --loops_;
    if (end == "else") node.otherwise = parse_block({"endfor"});
    return &node;
  }

  /// A name, or several with commas between, in parentheses or not; `stop` is the name behind them.
  Target parse_target(std::string_view stop = "", bool with_attributes = false) {
    const TokenStream::Level level(in_);
    Target first = parse_one_target(with_attributes);
    if (!in_.at_operator(",")) return first;
    Target target;
    target.is_tuple = true;
    target.parts.push_back(std::move(first));
    while (in_.skip_operator(",")) {
      const bool at_stop = !stop.empty() && in_.at_name(stop);
      if (at_stop || in_.at_operator(")") || in_.at_operator("=") || in_.at(TokenType::kBlockEnd)) break;
      target.parts.push_back(parse_one_target(with_attributes));
    }
    return target;
  }

  Target parse_one_target(bool with_attributes) {
    if (in_.skip_operator("(")) {
      Target inner = parse_target("", with_attributes);
      in_.expect_operator(")");
      return inner;
    }
    Target target;
    target.name = in_.expect_name();
    for (const std::string_view constant : {"true", "false", "none", "True", "False", "None"})
      if (target.name == constant) throw in_.fail("can't assign to '{}'", target.name);
    if (with_attributes && in_.skip_operator(".")) target.attribute = in_.expect_name();
    return target;
  }

  const Statement* parse_set(int line) {
    Statement& node = in_.statement(StatementType::kSet, line);
    node.target = parse_target("", true);
    if (in_.skip_operator("=")) {
      node.expr = parse_tuple(in_);
      return &node;
    }
    node.type = StatementType::kSetBlock;
    node.expr = parse_filters(in_, nullptr, false);
    node.body = parse_block({"endset"});
    return &node;
  }

  const Statement* parse_with(int line) {
    Statement& node = in_.statement(StatementType::kWith, line);
    while (!in_.at(TokenType::kBlockEnd)) {
      if (!node.targets.empty()) in_.expect_operator(",");
      node.targets.push_back(parse_one_target(false));
      in_.expect_operator("=");
      node.values.push_back(parse_expression(in_));
    }
    node.body = parse_block({"endwith"});
    return &node;
  }

  void parse_signature(Macro& macro) {
    in_.expect_operator("(");
    while (!in_.at_operator(")")) {
      if (!macro.parameters.empty()) in_.expect_operator(",");
      macro.parameters.push_back(in_.expect_name());
      if (in_.skip_operator("="))
        macro.defaults.push_back(parse_expression(in_));
      else if (!macro.defaults.empty())
        throw in_.fail("a parameter without a default follows one with");
    }
    in_.expect_operator(")");
  }

  /// The body of a macro or call block: loops outside are none of its loops.
  void parse_macro_body(Macro& macro, std::string_view end) {
    const int loops = std::exchange(loops_, 0);
    in_.macros.push_back(&macro);
    macro.body = parse_block({end});
    in_.macros.pop_back();
    loops_ = loops;
  }

  const Statement* parse_macro(int line) {
    Statement& node = in_.statement(StatementType::kMacro, line);
    Macro& macro = in_.program().macros.emplace_back();
    node.macro = &macro;
    macro.name = in_.expect_name();
    parse_signature(macro);
    parse_macro_body(macro, "endmacro");
    return &node;
  }

  const Statement* parse_call_block(int line) {
    Statement& node = in_.statement(StatementType::kCallBlock, line);
    Macro& macro = in_.program().macros.emplace_back();
    node.macro = &macro;
    macro.name = "caller";
    if (in_.at_operator("(")) parse_signature(macro);
    node.expr = parse_expression(in_);
    if (node.expr->type != ExprType::kCall) throw in_.fail("expected a call in the tag 'call'");
    parse_macro_body(macro, "endcall");
    return &node;
  }

  const Statement* parse_filter(int line) {
    Statement& node = in_.statement(StatementType::kFilterBlock, line);
    node.expr = parse_filters(in_, nullptr, true);
    node.body = parse_block({"endfilter"});
    return &node;
  }

  const Statement* parse_generation(int line) {
    Statement& node = in_.statement(StatementType::kScope, line);
    const int loops = std::exchange(loops_, 0);
    node.body = parse_block({"endgeneration"});
    loops_ = loops;
    return &node;
  }

  const Statement* leave_loop(int line, StatementType type, const char* name) {
    if (loops_ == 0) throw in_.fail_at(Code::kBadData, line, fmt::format("'{}' outside of a loop", name));
    return &in_.statement(type, line);
  }
  const Statement* parse_break(int line) { return leave_loop(line, StatementType::kBreak, "break"); }
  const Statement* parse_continue(int line) { return leave_loop(line, StatementType::kContinue, "continue"); }

  const Statement* parse_print(int line) {
    Statement& node = in_.statement(StatementType::kOutput, line);
    node.expr = parse_expression(in_);
    return &node;
  }

  TokenStream& in_;
  int loops_ = 0;  // around the current place
};

}  // namespace

std::shared_ptr<const Program> parse_program(std::string_view source, const std::string& what) {
  if (source.size() > kMaxSource)
    throw error(Code::kBadData, "reading {}: a template of {} bytes; expected {} at most", what, source.size(),
                kMaxSource);
  auto program = std::make_shared<Program>();
  program->what = what;
  TokenStream tokens(*program, tokenize(repair_utf8(source).text, what));
  program->body = Parser(tokens).parse_template();
  return program;
}

}  // namespace espalier::jinja
