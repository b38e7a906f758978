// The interpreter: walks the tree of a template. Scopes are Jinja's: a loop's body, a macro, `with`, a block set and a
// call block have one of their own, what is set in it ends with it; `if` has none. A macro sees the scope in which it
// stands, a loop's body a fresh one in each turn.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja_ast.h"
#include "text/jinja_runtime.h"

namespace espalier::jinja {

/// Variables, and where to look for those that are not here.
struct Scope {
  explicit Scope(std::shared_ptr<Scope> outer) : parent(std::move(outer)) {}
  const Value* find(std::string_view name) const;
  void set(const std::string& name, Value value);

  std::shared_ptr<Scope> parent;
  std::vector<std::pair<std::string, Value>> variables;
};

class Interpreter {
 public:
  Interpreter(const Program& program, Runtime& rt) : program_(program), rt_(rt) {}

  /// The text for a dict of variables.
  std::string run(const Value& variables);

  /// A macro's text for some arguments; called by macro values.
  Value call_macro(const Macro& macro, const std::shared_ptr<Scope>& scope, const Arguments& arguments);
  /// The text of a recursive loop over further items, one level deeper; called by loop values.
  Value call_loop(const Statement& loop, const std::shared_ptr<Scope>& scope, const Value& items, int level);

 private:
  enum class Flow { kNext, kBreak, kContinue };

  Flow run(const Body& body);
  Flow run(const Statement& s);
  Flow run_if(const Statement& s);
  Flow run_for(const Statement& s, const Value& iterable, int level);
  Value keep_if(const Statement& s, const Value& items);
  Flow run_with(const Statement& s);
  void run_call_block(const Statement& s);
  Flow run_scope(const Body& body);
  Value text_of(const Body& body);
  Value make_macro(const Macro& macro);
  void assign(const Target& target, const Value& value);

  Value eval(const Expr& e);
  Value eval_name(const Expr& e);
  Value eval_items(const Expr& e);
  Value eval_slice(const Expr& e);
  Value eval_filter(const Expr& e, const Value* input);
  Value eval_test(const Expr& e);
  Value eval_condition(const Expr& e);
  Value eval_concat(const Expr& e);
  Value eval_compare(const Expr& e);
  bool compare(const std::string& op, const Value& a, const Value& b);
  Arguments eval_arguments(const CallArguments& call);
  void bind_parameters(const Macro& macro, const Arguments& arguments);
  void bind_rest(const Macro& macro, const Arguments& arguments, std::vector<std::pair<std::string, Value>> named);

  const Program& program_;
  Runtime& rt_;
  std::shared_ptr<Scope> scope_;
  TextBuilder* out_ = nullptr;
};

}  // namespace espalier::jinja
