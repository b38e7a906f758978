// The operators + - * / // % ** on Python's types. Integers have 64 bits; what does not fit is an error, since Python's
// have no end.
#include <cmath>

#include "text/jinja_runtime.h"
#include "text/jinja_string.h"

namespace espalier::jinja {
namespace {

Error overflow(const Runtime& rt) { return rt.unsupported("an integer result is beyond 64 bits"); }

Error no_operator(const Runtime& rt, std::string_view op, const Value& a, const Value& b) {
  return rt.fail("unsupported operand type(s) for {}: '{}' and '{}'", op, type_name(a), type_name(b));
}

// Python's // and % round towards minus infinity.
int64_t floor_divide(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return quotient - (a % b != 0 && (a < 0) != (b < 0));
}

int64_t power(const Runtime& rt, int64_t base, int64_t exponent) {
  int64_t result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) && __builtin_mul_overflow(result, base, &result)) throw overflow(rt);
    if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) throw overflow(rt);
  }
  return result;
}

Value of_integers(const Runtime& rt, std::string_view op, int64_t a, int64_t b) {
  int64_t result = 0;
  if (op == "+" && __builtin_add_overflow(a, b, &result)) throw overflow(rt);
  if (op == "-" && __builtin_sub_overflow(a, b, &result)) throw overflow(rt);
  if (op == "*" && __builtin_mul_overflow(a, b, &result)) throw overflow(rt);
  if (op == "**") return b < 0 ? Value::number(std::pow(double(a), double(b))) : Value::integer(power(rt, a, b));
  if (op == "+" || op == "-" || op == "*") return Value::integer(result);
  if (b == 0) throw rt.fail("division by zero");
  if (op == "/") return Value::number(double(a) / double(b));
  if (b == -1) {  // the one quotient that overflows
    if (op == "%") return Value::integer(0);
    if (__builtin_sub_overflow(0, a, &result)) throw overflow(rt);
    return Value::integer(result);
  }
  if (op == "//") return Value::integer(floor_divide(a, b));
  return Value::integer(a - floor_divide(a, b) * b);
}

Value of_numbers(const Runtime& rt, std::string_view op, double a, double b) {
  if (op == "+") return Value::number(a + b);
  if (op == "-") return Value::number(a - b);
  if (op == "*") return Value::number(a * b);
  if (op == "**") return Value::number(std::pow(a, b));
  if (b == 0) throw rt.fail("float division by zero");
  if (op == "/") return Value::number(a / b);
  if (op == "//") return Value::number(std::floor(a / b));
  const double rest = std::fmod(a, b);
  return Value::number(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
}

// Marked text escapes what it is joined to.
Value joined(Runtime& rt, const Text& a, const Text& b) {
  const bool safe = a.safe || b.safe;
  rt.spend_text(a.value.size() + b.value.size());
  return rt.text((safe && !a.safe ? escape_html(a.value) : a.value) +
                     (safe && !b.safe ? escape_html(b.value) : b.value),
                 safe);
}

Value repeated(Runtime& rt, const Value& value, int64_t times) {
  times = std::max<int64_t>(times, 0);
  if (value.is_string()) {
    const std::string& text = value.string();
    const auto bytes = __int128(times) * __int128(text.size());
    rt.spend_text(bytes > INT64_MAX ? size_t(INT64_MAX) : size_t(bytes));
    std::string out;
    for (int64_t i = 0; i < times && !text.empty(); ++i) out += text;
    return rt.text(std::move(out), value.text().safe);
  }
  const Values& items = value.sequence().items;
  Values out;
  for (int64_t i = 0; i < times && !items.empty(); ++i) {
    rt.step(int64_t(items.size()));
    out.insert(out.end(), items.begin(), items.end());
  }
  return rt.sequence(value.sequence().type, std::move(out));
}

bool can_repeat(const Value& value) {
  return value.is_string() || value.is_sequence(SequenceType::kList) || value.is_sequence(SequenceType::kTuple);
}

Value concatenated(Runtime& rt, const Sequence& a, const Sequence& b) {
  rt.step(int64_t(a.items.size() + b.items.size()));
  Values items = a.items;
  items.insert(items.end(), b.items.begin(), b.items.end());
  return rt.sequence(a.type, std::move(items));
}

}  // namespace

Value arithmetic(Runtime& rt, std::string_view op, const Value& a, const Value& b) {
  if (op == "%" && a.is_string()) return format_percent(rt, a.string(), b);
  if (a.is_undefined()) rt.fail_undefined(a);
  if (b.is_undefined()) rt.fail_undefined(b);
  if (a.is_integer() && b.is_integer()) return of_integers(rt, op, a.as_int(), b.as_int());
  if (a.is_number() && b.is_number()) return of_numbers(rt, op, a.as_double(), b.as_double());
  if (op == "*" && can_repeat(a) && b.is_integer()) return repeated(rt, a, b.as_int());
  if (op == "*" && can_repeat(b) && a.is_integer()) return repeated(rt, b, a.as_int());
  if (op == "+") {
    if (a.is_string() && b.is_string()) return joined(rt, a.text(), b.text());
    if (a.is_string() || b.is_string()) {
      if (a.is_string())
        throw rt.fail("can only concatenate str (not \"{}\") to str; use ~ to join any values", type_name(b));
      throw no_operator(rt, op, a, b);
    }
    const bool lists = a.is_sequence(SequenceType::kList) && b.is_sequence(SequenceType::kList);
    const bool tuples = a.is_sequence(SequenceType::kTuple) && b.is_sequence(SequenceType::kTuple);
    if (lists || tuples) return concatenated(rt, a.sequence(), b.sequence());
  }
  throw no_operator(rt, op, a, b);
}

Value negate(Runtime& rt, const Value& value) {
  if (value.is_undefined()) rt.fail_undefined(value);
  if (value.kind() == Kind::kFloat) return Value::number(-value.as_double());
  if (!value.is_integer()) throw rt.fail("bad operand type for unary -: '{}'", type_name(value));
  if (value.as_int() == INT64_MIN) throw overflow(rt);
  return Value::integer(-value.as_int());
}

}  // namespace espalier::jinja
