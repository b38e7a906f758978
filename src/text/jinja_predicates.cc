// The tests of `is`, and of select and its kin.
#include <algorithm>
#include <cmath>

#include "text/jinja_runtime.h"
#include "text/jinja_string.h"

namespace espalier::jinja {
namespace {

using Predicate = bool (*)(Runtime& rt, const Value& value, const Values& args);

struct Row {
  const char* name;
  size_t arguments;
  Predicate predicate;
};

bool remainder_is(Runtime& rt, const Value& value, int64_t divisor, int64_t rest) {
  return equal(rt, arithmetic(rt, "%", value, Value::integer(divisor)), Value::integer(rest));
}

bool is_a_sequence(const Value& value) {
  return value.is_string() || value.is_dict() || value.is_undefined() || value.is_sequence(SequenceType::kList) ||
         value.is_sequence(SequenceType::kTuple) || value.is_sequence(SequenceType::kRange);
}

bool can_be_walked(const Value& value) {
  return value.is_string() || value.is_dict() || value.is_undefined() || value.is_sequence();
}

bool is_same(const Value& a, const Value& b) {
  if (a.kind() != b.kind()) return false;
  if (a.shared() || b.shared()) return a.shared() == b.shared();
  return a.kind() == Kind::kFloat ? a.as_double() == b.as_double() : a.as_int() == b.as_int();
}

bool is_text_all(Runtime& rt, const Value& value, const char* what) {
  const Value text = rt.text(to_text(rt, value));
  const Scratch scratch(rt, 24 * text.string().size());
  return is_all(text.string(), what);
}

bool eq(Runtime& rt, const Value& v, const Values& a) { return equal(rt, v, a[0]); }
bool ne(Runtime& rt, const Value& v, const Values& a) { return !equal(rt, v, a[0]); }
bool gt(Runtime& rt, const Value& v, const Values& a) { return less(rt, a[0], v); }
bool lt(Runtime& rt, const Value& v, const Values& a) { return less(rt, v, a[0]); }
bool ge(Runtime& rt, const Value& v, const Values& a) { return less(rt, a[0], v) || equal(rt, v, a[0]); }
bool le(Runtime& rt, const Value& v, const Values& a) { return less(rt, v, a[0]) || equal(rt, v, a[0]); }

constexpr Row kRows[] = {
    {"defined", 0, [](Runtime&, const Value& v, const Values&) { return !v.is_undefined(); }},
    {"undefined", 0, [](Runtime&, const Value& v, const Values&) { return v.is_undefined(); }},
    {"none", 0, [](Runtime&, const Value& v, const Values&) { return v.is_none(); }},
    {"boolean", 0, [](Runtime&, const Value& v, const Values&) { return v.is_bool(); }},
    {"true", 0, [](Runtime&, const Value& v, const Values&) { return v.is_bool() && v.as_int(); }},
    {"false", 0, [](Runtime&, const Value& v, const Values&) { return v.is_bool() && !v.as_int(); }},
    {"integer", 0, [](Runtime&, const Value& v, const Values&) { return v.kind() == Kind::kInt; }},
    {"float", 0, [](Runtime&, const Value& v, const Values&) { return v.kind() == Kind::kFloat; }},
    {"number", 0, [](Runtime&, const Value& v, const Values&) { return v.is_number(); }},
    {"string", 0, [](Runtime&, const Value& v, const Values&) { return v.is_string(); }},
    {"mapping", 0, [](Runtime&, const Value& v, const Values&) { return v.is_dict(); }},
    {"sequence", 0, [](Runtime&, const Value& v, const Values&) { return is_a_sequence(v); }},
    {"iterable", 0, [](Runtime&, const Value& v, const Values&) { return can_be_walked(v); }},
    {"callable", 0, [](Runtime&, const Value& v, const Values&) { return v.kind() == Kind::kCallable; }},
    {"escaped", 0, [](Runtime&, const Value& v, const Values&) { return v.is_string() && v.text().safe; }},
    {"lower", 0, [](Runtime& rt, const Value& v, const Values&) { return is_text_all(rt, v, "islower"); }},
    {"upper", 0, [](Runtime& rt, const Value& v, const Values&) { return is_text_all(rt, v, "isupper"); }},
    {"odd", 0, [](Runtime& rt, const Value& v, const Values&) { return remainder_is(rt, v, 2, 1); }},
    {"even", 0, [](Runtime& rt, const Value& v, const Values&) { return remainder_is(rt, v, 2, 0); }},
    {"divisibleby", 1,
     [](Runtime& rt, const Value& v, const Values& a) {
       return equal(rt, arithmetic(rt, "%", v, a[0]), Value::integer(0));
     }},
    {"in", 1, [](Runtime& rt, const Value& v, const Values& a) { return contains(rt, a[0], v); }},
    {"sameas", 1, [](Runtime&, const Value& v, const Values& a) { return is_same(v, a[0]); }},
    {"filter", 0, [](Runtime& rt, const Value& v, const Values&) { return filter_exists(to_text(rt, v)); }},
    {"test", 0, [](Runtime& rt, const Value& v, const Values&) { return test_exists(to_text(rt, v)); }},
    {"==", 1, eq},        {"eq", 1, eq}, {"equalto", 1, eq},
    {"!=", 1, ne},        {"ne", 1, ne},
    {">", 1, gt},         {"gt", 1, gt}, {"greaterthan", 1, gt},
    {"<", 1, lt},         {"lt", 1, lt}, {"lessthan", 1, lt},
    {">=", 1, ge},        {"ge", 1, ge},
    {"<=", 1, le},        {"le", 1, le},
};

const Row* find_test(std::string_view name) {
  for (const Row& row : kRows)
    if (name == row.name) return &row;
  return nullptr;
}

}  // namespace

bool test_exists(std::string_view name) { return find_test(name) != nullptr; }

bool apply_test(Runtime& rt, const std::string& name, const Value& value, const Arguments& arguments) {
  rt.step();
  const Row* row = find_test(name);
  if (!row) throw rt.fail("No test named '{}'.", name);
  if (arguments.positional.size() != row->arguments || !arguments.named.empty())
    throw rt.fail("the test '{}' takes {} arguments ({} given)", name, row->arguments,
                  arguments.positional.size() + arguments.named.size());
  return row->predicate(rt, value, arguments.positional);
}

}  // namespace espalier::jinja
