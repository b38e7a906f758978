// The half of the interpreter that computes expressions.
#include "text/jinja_interpreter.h"
#include "text/jinja_string.h"

namespace espalier::jinja {

Value Interpreter::eval(const Expr& e) {
  const Depth level(rt_);
  rt_.step();
  rt_.line = e.line;
  switch (e.type) {
    case ExprType::kConstant: return e.constant;
    case ExprType::kName: return eval_name(e);
    case ExprType::kList:
    case ExprType::kTuple:
    case ExprType::kDict: return eval_items(e);
    case ExprType::kAttribute: {
      const Value object = eval(*e.a);
      rt_.line = e.line;
      return get_attribute(rt_, object, e.name);
    }
    case ExprType::kItem: {
      const Value object = eval(*e.a), key = eval(*e.b);
      rt_.line = e.line;
      return get_item(rt_, object, key);
    }
    case ExprType::kSlice: return eval_slice(e);
    case ExprType::kCall: {
      const Value callee = eval(*e.a);
      const Arguments arguments = eval_arguments(e.call);
      rt_.line = e.line;
      return call(rt_, callee, arguments);
    }
    case ExprType::kFilter: return eval_filter(e, nullptr);
    case ExprType::kTest: return eval_test(e);
    case ExprType::kNot: return Value::boolean(!truthy(eval(*e.a)));
    case ExprType::kNegate: return negate(rt_, eval(*e.a));
    case ExprType::kPlus: return arithmetic(rt_, "+", Value::integer(0), eval(*e.a));
    case ExprType::kAnd: {
      const Value a = eval(*e.a);
      return truthy(a) ? eval(*e.b) : a;
    }
    case ExprType::kOr: {
      const Value a = eval(*e.a);
      return truthy(a) ? a : eval(*e.b);
    }
    case ExprType::kCondition: return eval_condition(e);
    case ExprType::kConcat: return eval_concat(e);
    case ExprType::kBinary: {
      const Value a = eval(*e.a), b = eval(*e.b);
      rt_.line = e.line;
      return arithmetic(rt_, e.name, a, b);
    }
    case ExprType::kCompare: return eval_compare(e);
  }
  return Value();
}

Value Interpreter::eval_name(const Expr& e) {
  if (const Value* found = scope_->find(e.name)) return *found;
  if (auto global = find_global(rt_, e.name)) return *global;
  return rt_.undefined("'" + e.name + "' is undefined");
}

Value Interpreter::eval_items(const Expr& e) {
  Values items;
  for (const Expr* item : e.items) items.push_back(eval(*item));
  rt_.line = e.line;
  if (e.type == ExprType::kList) return rt_.list(std::move(items));
  if (e.type == ExprType::kTuple) return rt_.tuple(std::move(items));
  std::vector<Pair> pairs;
  for (size_t i = 0; i + 1 < items.size(); i += 2) pairs.emplace_back(items[i], items[i + 1]);
  return rt_.dict(std::move(pairs));
}

Value Interpreter::eval_slice(const Expr& e) {
  const Value object = eval(*e.a);
  const auto part = [&](size_t i) { return e.items[i] ? eval(*e.items[i]) : Value::none(); };
  const Value start = part(0), stop = part(1), step = part(2);
  rt_.line = e.line;
  return get_slice(rt_, object, start, stop, step);
}

Value Interpreter::eval_filter(const Expr& e, const Value* input) {
  // In a filter block the innermost filter of the chain gets the block's text.
  Value value;
  if (!e.a)
    value = *input;
  else
    value = e.a->type == ExprType::kFilter && input ? eval_filter(*e.a, input) : eval(*e.a);
  const Arguments arguments = eval_arguments(e.call);
  rt_.line = e.line;
  return apply_filter(rt_, e.name, value, arguments);
}

Value Interpreter::eval_test(const Expr& e) {
  const Value value = eval(*e.a);
  const Arguments arguments = eval_arguments(e.call);
  rt_.line = e.line;
  return Value::boolean(apply_test(rt_, e.name, value, arguments));
}

Value Interpreter::eval_condition(const Expr& e) {
  if (truthy(eval(*e.b))) return eval(*e.a);
  if (e.c) return eval(*e.c);
  return rt_.undefined(fmt::format(
      "the inline if-expression on line {} evaluated to false and no else section was defined", e.line));
}

Value Interpreter::eval_concat(const Expr& e) {
  TextBuilder text(rt_);
  for (const Expr* item : e.items) write_text(text, rt_, eval(*item));
  return rt_.text(text.take());
}

Value Interpreter::eval_compare(const Expr& e) {
  Value left = eval(*e.a);
  for (size_t i = 0; i < e.items.size(); ++i) {
    const Value right = eval(*e.items[i]);
    rt_.line = e.line;
    if (!compare(e.operators[i], left, right)) return Value::boolean(false);
    left = right;
  }
  return Value::boolean(true);
}

bool Interpreter::compare(const std::string& op, const Value& a, const Value& b) {
  if (op == "==") return equal(rt_, a, b);
  if (op == "!=") return !equal(rt_, a, b);
  if (op == "<") return less(rt_, a, b);
  if (op == ">") return less(rt_, b, a);
  if (op == "<=") return less(rt_, a, b) || equal(rt_, a, b);
  if (op == ">=") return less(rt_, b, a) || equal(rt_, a, b);
  return contains(rt_, b, a) == (op == "in");
}

Arguments Interpreter::eval_arguments(const CallArguments& written) {
  Arguments arguments;
  for (const Expr* item : written.positional) arguments.positional.push_back(eval(*item));
  for (const auto& [name, item] : written.named) arguments.named.emplace_back(name, eval(*item));
  if (written.star) {
    const Value items = walk(rt_, eval(*written.star));
    for (const Value& item : items.sequence().items) arguments.positional.push_back(item);
  }
  if (written.double_star) {
    const Value named = eval(*written.double_star);
    if (!named.is_dict()) throw rt_.fail("argument after ** must be a mapping, not {}", type_name(named));
    for (const auto& [key, value] : named.dict().pairs) arguments.named.emplace_back(to_text(rt_, key), value);
  }
  return arguments;
}

Value call(Runtime& rt, const Value& callee, const Arguments& arguments) {
  if (callee.is_undefined()) rt.fail_undefined(callee);
  if (callee.kind() != Kind::kCallable) throw rt.fail("'{}' object is not callable", type_name(callee));
  // The callee may be the last holder of itself: a method that is called where it is made.
  const std::shared_ptr<Object> hold = callee.shared();
  return callee.callable().call(rt, arguments);
}

}  // namespace espalier::jinja
