#include "text/jinja_loop.h"

namespace espalier::jinja {

Loop::Loop(Interpreter& interpreter, const Statement& statement, std::shared_ptr<Scope> scope, Value items, int level)
    : Callable(items.depth() + 1), interpreter_(interpreter), statement_(statement), items_(std::move(items)),
      level_(level) {
  // Only a recursive loop comes back to its scope; holding it otherwise would only keep values alive.
  if (statement.recursive) scope_ = std::move(scope);
}

Value Loop::call(Runtime& rt, const Arguments& arguments) {
  if (!statement_.recursive) throw rt.fail("The loop must have the 'recursive' marker to be called recursively.");
  const Values args = bind(rt, "loop", arguments, {"iterable"});
  return interpreter_.call_loop(statement_, scope_, args[0], level_ + 1);
}

Value Loop::number(std::string_view name, bool& found) const {
  const int64_t length = int64_t(items_.sequence().items.size());
  found = true;
  if (name == "index") return Value::integer(index_ + 1);
  if (name == "index0") return Value::integer(index_);
  if (name == "revindex") return Value::integer(length - index_);
  if (name == "revindex0") return Value::integer(length - index_ - 1);
  if (name == "first") return Value::boolean(index_ == 0);
  if (name == "last") return Value::boolean(index_ == length - 1);
  if (name == "length") return Value::integer(length);
  if (name == "depth") return Value::integer(level_ + 1);
  if (name == "depth0") return Value::integer(level_);
  found = false;
  return Value();
}

std::unique_ptr<Value> Loop::attribute(Runtime& rt, std::string_view name) {
  bool found = false;
  if (!items_.is_sequence()) return nullptr;
  const Value value = number(name, found);
  if (found) return std::make_unique<Value>(value);
  const Values& items = items_.sequence().items;
  if (name == "previtem")
    return std::make_unique<Value>(index_ > 0 ? items[size_t(index_ - 1)] : rt.undefined("there is no previous item"));
  if (name == "nextitem")
    return std::make_unique<Value>(index_ + 1 < int64_t(items.size()) ? items[size_t(index_ + 1)]
                                                                      : rt.undefined("there is no next item"));
  if (name == "cycle" || name == "changed") return std::make_unique<Value>(method(rt, name));
  return nullptr;
}

Value Loop::method(Runtime& rt, std::string_view name) {
  const auto self = shared_from_this();
  const bool cycles = name == "cycle";
  const auto body = [self, cycles](Runtime& r, const Arguments& arguments) {
    if (!cycles) return self->changed(r, arguments);
    if (arguments.positional.empty()) throw r.fail("no items for cycling given");
    return arguments.positional[size_t(self->index_) % arguments.positional.size()];
  };
  return rt.function(std::string(name), body, Value::object(Kind::kCallable, self));
}

Value Loop::changed(Runtime& rt, const Arguments& arguments) {
  const Value now = rt.tuple(arguments.positional);
  if (!last_.is_undefined() && equal(rt, last_, now)) return Value::boolean(false);
  // A loop that holds what a template gave it may be a link of a chain of any length.
  if (!std::exchange(kept_, true)) rt.keep(shared_from_this());
  last_ = now;
  return Value::boolean(true);
}

void Loop::clear() {
  scope_.reset();
  items_ = last_ = Value();
}

std::string Loop::describe() const {
  return fmt::format("<LoopContext {}/{}>", index_ + 1, items_.is_sequence() ? items_.sequence().items.size() : 0);
}

}  // namespace espalier::jinja
