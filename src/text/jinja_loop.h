// The variable `loop` of a for loop.
#pragma once
#include <memory>
#include <string>

#include "text/jinja_interpreter.h"

namespace espalier::jinja {

/// Its attributes are Jinja's: index, index0, revindex, revindex0, first, last, length, previtem, nextitem, depth,
/// depth0, cycle(...), changed(...); and a recursive loop can be called.
class Loop : public Callable, public std::enable_shared_from_this<Loop> {
 public:
  /// `scope` is the one around the loop, `level` the depth of recursion from 0.
  Loop(Interpreter& interpreter, const Statement& statement, std::shared_ptr<Scope> scope, Value items, int level);

  void advance() { ++index_; }
  Value call(Runtime& rt, const Arguments& arguments) override;
  std::unique_ptr<Value> attribute(Runtime& rt, std::string_view name) override;
  void clear() override;
  std::string describe() const override;

 private:
  Value number(std::string_view name, bool& found) const;
  Value method(Runtime& rt, std::string_view name);
  Value changed(Runtime& rt, const Arguments& arguments);

  Interpreter& interpreter_;
  const Statement& statement_;
  std::shared_ptr<Scope> scope_;
  Value items_;
  Value last_;  // what changed() saw last; undefined: nothing yet
  int64_t index_ = -1;
  int level_;
  bool kept_ = false;
};

}  // namespace espalier::jinja
