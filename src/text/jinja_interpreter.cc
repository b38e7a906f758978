#include "text/jinja_interpreter.h"

#include <algorithm>

#include "base/check.h"
#include "text/jinja_loop.h"
#include "text/jinja_parser.h"

namespace espalier::jinja {
namespace {

/// A macro in the scope where it stands. Kept by the Runtime, since the scope usually holds the macro too.
class MacroValue : public Callable {
 public:
  MacroValue(Interpreter& interpreter, const Macro& macro, std::shared_ptr<Scope> scope)
      : interpreter_(interpreter), macro_(macro), scope_(std::move(scope)) {}
  Value call(Runtime&, const Arguments& arguments) override {
    return interpreter_.call_macro(macro_, scope_, arguments);
  }
  std::unique_ptr<Value> attribute(Runtime& rt, std::string_view name) override {
    if (name == "name") return std::make_unique<Value>(rt.text(macro_.name));
    return nullptr;
  }
  void clear() override { scope_.reset(); }
  std::string describe() const override { return "<Macro '" + macro_.name + "'>"; }

 private:
  Interpreter& interpreter_;
  const Macro& macro_;
  std::shared_ptr<Scope> scope_;
};

}  // namespace

const Value* Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope; scope = scope->parent.get())
    for (const auto& [key, value] : scope->variables)
      if (key == name) return &value;
  return nullptr;
}

void Scope::set(const std::string& name, Value value) {
  for (auto& [key, known] : variables)
    if (key == name) {
      known = std::move(value);
      return;
    }
  variables.emplace_back(name, std::move(value));
}

std::string Interpreter::run(const Value& variables) {
  TextBuilder out(rt_);
  out_ = &out;
  scope_ = std::make_shared<Scope>(nullptr);
  for (const auto& [name, value] : variables.dict().pairs) scope_->set(name.string(), value);
  run(program_.body);
  return out.take();
}

Interpreter::Flow Interpreter::run(const Body& body) {
  const Depth level(rt_);
  for (const Statement* statement : body)
    if (const Flow flow = run(*statement); flow != Flow::kNext) return flow;
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run(const Statement& s) {
  rt_.step();
  rt_.line = s.line;
  switch (s.type) {
    case StatementType::kData: out_->add(s.text); break;
    case StatementType::kOutput: {
      const Value value = eval(*s.expr);
      write_text(*out_, rt_, value);
      break;
    }
    case StatementType::kIf: return run_if(s);
    case StatementType::kFor: return run_for(s, eval(*s.expr), 0);
    case StatementType::kSet: assign(s.target, eval(*s.expr)); break;
    case StatementType::kSetBlock: {
      const Value text = text_of(s.body);
      assign(s.target, s.expr ? eval_filter(*s.expr, &text) : text);
      break;
    }
    case StatementType::kWith: return run_with(s);
    case StatementType::kMacro: scope_->set(s.macro->name, make_macro(*s.macro)); break;
    case StatementType::kCallBlock: run_call_block(s); break;
    case StatementType::kFilterBlock: {
      const Value text = text_of(s.body);
      write_text(*out_, rt_, eval_filter(*s.expr, &text));
      break;
    }
    case StatementType::kScope: return run_scope(s.body);
    case StatementType::kBreak: return Flow::kBreak;
    case StatementType::kContinue: return Flow::kContinue;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run_if(const Statement& s) {
  for (const Branch& branch : s.branches)
    if (!branch.condition || truthy(eval(*branch.condition))) return run(branch.body);
  return Flow::kNext;
}

/// The items that pass the loop's condition, which sees the loop's variables but not the loop.
Value Interpreter::keep_if(const Statement& s, const Value& items) {
  const std::shared_ptr<Scope> outer = scope_;
  Values kept;
  for (const Value& item : items.sequence().items) {
    scope_ = std::make_shared<Scope>(outer);
    assign(s.target, item);
    if (truthy(eval(*s.condition))) kept.push_back(item);
  }
  scope_ = outer;
  return rt_.tuple(std::move(kept));
}

Interpreter::Flow Interpreter::run_for(const Statement& s, const Value& iterable, int level) {
  Value items = walk(rt_, iterable);
  if (s.condition) items = keep_if(s, items);
  if (items.sequence().items.empty()) return run(s.otherwise);
  const std::shared_ptr<Scope> outer = scope_;
  const auto loop = rt_.own(std::make_shared<Loop>(*this, s, outer, items, level), 0);
  if (s.recursive) rt_.keep(loop);  // it holds a scope, whose variables may hold other such loops without end
  const Value loop_value = Value::object(Kind::kCallable, loop);
  for (const Value& item : items.sequence().items) {
    loop->advance();
    scope_ = std::make_shared<Scope>(outer);
    assign(s.target, item);
    scope_->set("loop", loop_value);
    if (run(s.body) == Flow::kBreak) break;
  }
  scope_ = outer;
  return Flow::kNext;
}

Value Interpreter::call_loop(const Statement& loop, const std::shared_ptr<Scope>& scope, const Value& items,
                             int level) {
  const Depth depth(rt_);
  TextBuilder text(rt_);
  TextBuilder* const out = std::exchange(out_, &text);
  const std::shared_ptr<Scope> caller = std::exchange(scope_, scope);
  run_for(loop, items, level);
  scope_ = caller;
  out_ = out;
  return rt_.text(text.take());
}

Interpreter::Flow Interpreter::run_with(const Statement& s) {
  // Values are computed outside: `with a = 1, b = a` takes an outer a.
  Values values;
  for (const Expr* value : s.values) values.push_back(eval(*value));
  const std::shared_ptr<Scope> outer = scope_;
  scope_ = std::make_shared<Scope>(outer);
  for (size_t i = 0; i < values.size(); ++i) assign(s.targets[i], values[i]);
  const Flow flow = run(s.body);
  scope_ = outer;
  return flow;
}

Interpreter::Flow Interpreter::run_scope(const Body& body) {
  const std::shared_ptr<Scope> outer = std::exchange(scope_, std::make_shared<Scope>(scope_));
  const Flow flow = run(body);
  scope_ = outer;
  return flow;
}

Value Interpreter::text_of(const Body& body) {
  TextBuilder text(rt_);
  TextBuilder* const out = std::exchange(out_, &text);
  run_scope(body);
  out_ = out;
  return rt_.text(text.take());
}

Value Interpreter::make_macro(const Macro& macro) {
  const auto made = rt_.own(std::make_shared<MacroValue>(*this, macro, scope_), sizeof(Scope));
  rt_.keep(made);
  return Value::object(Kind::kCallable, made);
}

void Interpreter::run_call_block(const Statement& s) {
  const Value callee = eval(*s.expr->a);
  Arguments arguments = eval_arguments(s.expr->call);
  arguments.named.emplace_back("caller", make_macro(*s.macro));
  rt_.line = s.line;
  write_text(*out_, rt_, call(rt_, callee, arguments));
}

Value Interpreter::call_macro(const Macro& macro, const std::shared_ptr<Scope>& scope, const Arguments& arguments) {
  const Depth depth(rt_);
  const int line = rt_.line;
  TextBuilder text(rt_);
  TextBuilder* const out = std::exchange(out_, &text);
  const std::shared_ptr<Scope> caller = std::exchange(scope_, std::make_shared<Scope>(scope));
  bind_parameters(macro, arguments);
  run(macro.body);
  scope_ = caller;
  out_ = out;
  rt_.line = line;
  return rt_.text(text.take());
}

void Interpreter::bind_parameters(const Macro& macro, const Arguments& arguments) {
  auto named = arguments.named;
  const size_t count = macro.parameters.size(), required = count - macro.defaults.size();
  for (size_t i = 0; i < count; ++i) {
    const std::string& name = macro.parameters[i];
    if (i < arguments.positional.size()) {
      scope_->set(name, arguments.positional[i]);
      continue;
    }
    const auto given = std::find_if(named.begin(), named.end(), [&](const auto& n) { return n.first == name; });
    if (given != named.end()) {
      scope_->set(name, given->second);
      named.erase(given);
    } else if (i >= required) {
      scope_->set(name, eval(*macro.defaults[i - required]));  // it may use the parameters before it
    } else {
      scope_->set(name, rt_.undefined("parameter '" + name + "' was not provided"));
    }
  }
  bind_rest(macro, arguments, std::move(named));
}

/// caller, varargs and kwargs: what is left of the arguments.
void Interpreter::bind_rest(const Macro& macro, const Arguments& arguments,
                            std::vector<std::pair<std::string, Value>> named) {
  const size_t count = macro.parameters.size();
  const bool explicit_caller = std::find(macro.parameters.begin(), macro.parameters.end(), "caller") !=
                               macro.parameters.end();
  if (macro.uses_caller && !explicit_caller) {
    const auto given = std::find_if(named.begin(), named.end(), [](const auto& n) { return n.first == "caller"; });
    scope_->set("caller", given == named.end() ? rt_.undefined("No caller defined") : given->second);
    if (given != named.end()) named.erase(given);
  }
  if (macro.uses_kwargs) {
    std::vector<Pair> pairs;
    for (const auto& [name, value] : named) pairs.emplace_back(rt_.text(name), value);
    scope_->set("kwargs", rt_.dict(std::move(pairs)));
  } else if (!named.empty()) {
    throw rt_.fail("macro '{}' takes no keyword argument '{}'", macro.name, named[0].first);
  }
  if (macro.uses_varargs) {
    Values rest;
    for (size_t i = count; i < arguments.positional.size(); ++i) rest.push_back(arguments.positional[i]);
    scope_->set("varargs", rt_.tuple(std::move(rest)));
  } else if (arguments.positional.size() > count) {
    throw rt_.fail("macro '{}' takes not more than {} argument(s)", macro.name, count);
  }
}

void Interpreter::assign(const Target& target, const Value& value) {
  if (target.is_tuple) {
    const Value items = walk(rt_, value);
    const Values& values = items.sequence().items;
    if (values.size() != target.parts.size())
      throw rt_.fail("{} values to unpack (expected {})", values.size(), target.parts.size());
    for (size_t i = 0; i < values.size(); ++i) assign(target.parts[i], values[i]);
    return;
  }
  if (target.attribute.empty()) return scope_->set(target.name, value);
  const Value* space = scope_->find(target.name);
  if (!space || space->kind() != Kind::kNamespace)
    throw rt_.fail("cannot assign attribute on non-namespace object '{}'", target.name);
  if (target.attribute.starts_with('_'))
    throw rt_.fail("'{}' begins with an underscore, which transformers refuses; rename it", target.attribute);
  auto& attributes = space->space().attributes;
  const auto known = std::find_if(attributes.begin(), attributes.end(),
                                  [&](const auto& a) { return a.first == target.attribute; });
  if (known != attributes.end())
    known->second = value;
  else
    attributes.emplace_back(target.attribute, value);
}

}  // namespace espalier::jinja

namespace espalier {

JinjaTemplate JinjaTemplate::parse(std::string_view source, const std::string& what) {
  return JinjaTemplate(jinja::parse_program(source, what));
}

std::string JinjaTemplate::render(const OrderedJson& variables, const JinjaOptions& options) const {
  jinja::Runtime rt(program_->what, options);
  const jinja::Value values = jinja::from_json(rt, variables);
  ESP_CHECK(values.is_dict(), "the variables of a template are an object, not a {}", jinja::type_name(values));
  jinja::Interpreter interpreter(*program_, rt);
  return interpreter.run(values);
}

}  // namespace espalier
