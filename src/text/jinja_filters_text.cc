// Filters of strings and numbers.
#include <charconv>
#include <cmath>

#include "text/jinja_filters.h"
#include "text/jinja_string.h"

namespace espalier::jinja {
namespace {

bool is_safe(const Value& value) { return value.is_string() && value.text().safe; }

/// The value as text (Jinja's soft_str), counted as what a filter may use for the moment.
Value soft_text(Runtime& rt, const Value& value) { return value.is_string() ? value : rt.text(to_text(rt, value)); }

template <std::string (*kFunction)(std::string_view)>
Value case_filter(Runtime& rt, const Value& value, const Arguments& arguments) {
  bind(rt, "upper", arguments, {});
  const Value text = soft_text(rt, value);
  const Scratch scratch(rt, 24 * text.string().size());
  return rt.text(kFunction(text.string()), is_safe(text));
}

// Jinja's own title: words begin behind white space and ( { [ < -, and the rest of each is lower.
Value title_filter(Runtime& rt, const Value& value, const Arguments& arguments) {
  bind(rt, "title", arguments, {});
  const Value text = soft_text(rt, value);
  const Scratch scratch(rt, 24 * text.string().size());
  const std::string_view all = text.string();
  const auto separates = [&](size_t at) {
    const std::string_view rest = all.substr(at);
    const bool mark = std::string_view("-({[<").find(rest[0]) != std::string_view::npos;
    return mark || strip(rest, nullptr, true, false).size() != rest.size();
  };
  std::string out;
  for (size_t at = 0; at < all.size();) {
    size_t end = at;
    while (end < all.size() && !separates(end)) end += byte_of(all.substr(end), 1);
    if (end == at) {
      const size_t size = byte_of(all.substr(at), 1);
      out += all.substr(at, size);
      at += size;
      continue;
    }
    const size_t first = byte_of(all.substr(at), 1);
    out += upper(all.substr(at, first)) + lower(all.substr(at + first, end - at - first));
    at = end;
  }
  return rt.text(std::move(out), is_safe(text));
}

Value trim_filter(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Values args = bind(rt, "trim", arguments, {"chars"});
  const Value text = soft_text(rt, value);
  const bool all = args[0].is_undefined() || args[0].is_none();
  if (!all && !args[0].is_string()) throw rt.fail("trim: the characters must be a string");
  if (!all) rt.step(int64_t(args[0].string().size()));
  const std::string_view rest = strip(text.string(), all ? nullptr : &args[0].string(), true, true);
  return rt.text(std::string(rest), is_safe(text));
}

Value string_filter(Runtime& rt, const Value& value, const Arguments&) { return soft_text(rt, value); }

Value safe_filter(Runtime& rt, const Value& value, const Arguments&) { return rt.text(to_text(rt, value), true); }

Value escape_filter(Runtime& rt, const Value& value, const Arguments&) {
  if (is_safe(value)) return value;
  return rt.text(escape_html(to_text(rt, value)), true);
}

Value force_escape_filter(Runtime& rt, const Value& value, const Arguments&) {
  return rt.text(escape_html(to_text(rt, value)), true);
}

Value replace_filter(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Values args = bind(rt, "replace", arguments, {"old", "new", "count"});
  if (arguments.positional.size() + arguments.named.size() < 2) throw rt.fail("replace: wants what and by what");
  const std::string text = to_text(rt, value), from = to_text(rt, args[0]), to = to_text(rt, args[1]);
  const int64_t count = args[2].is_none() ? -1 : int_argument(rt, "replace", args[2], -1);
  TextBuilder out(rt);
  size_t at = 0;
  for (int64_t done = 0; count < 0 || done < count; ++done) {
    // Nothing is found before each character and at the end.
    const size_t found = from.empty() ? at : text.find(from, at);
    if (found == std::string::npos || found > text.size()) break;
    out.add(std::string_view(text).substr(at, found - at));
    out.add(to);
    at = found + from.size();
    if (!from.empty()) continue;
    if (at == text.size()) return rt.text(out.take());
    const size_t size = byte_of(std::string_view(text).substr(at), 1);
    out.add(std::string_view(text).substr(at, size));
    at += size;
    rt.step();
  }
  out.add(std::string_view(text).substr(at));
  return rt.text(out.take(), is_safe(value));
}

Value indent_filter(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Values args = bind(rt, "indent", arguments, {"width", "first", "blank"});
  if (value.is_undefined()) rt.fail_undefined(value);
  if (!value.is_string()) throw rt.fail("indent: wants a string, not a {}", type_name(value));
  const Value width = Value::integer(args[0].is_string() ? 0 : int_argument(rt, "indent", args[0], 4));
  const Value spaces = args[0].is_string() ? args[0] : arithmetic(rt, "*", rt.text(" "), width);
  const Scratch scratch(rt, 16 * value.string().size());
  const std::string text = value.string() + "\n";
  TextBuilder out(rt);
  bool first = true;
  for (const std::string_view line : split_lines(text, false)) {
    if (!first) out.add('\n');
    if (first ? truthy(args[1]) : truthy(args[2]) || !line.empty()) out.add(spaces.string());
    out.add(line);
    first = false;
  }
  return rt.text(out.take(), is_safe(value));
}

Value truncate_filter(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Values args = bind(rt, "truncate", arguments, {"length", "killwords", "end", "leeway"});
  const Value text = soft_text(rt, value);
  const std::string end = args[2].is_undefined() ? "..." : to_text(rt, args[2]);
  const int64_t keep = int_argument(rt, "truncate", args[0], 255);
  const int64_t leeway = args[3].is_none() ? 5 : int_argument(rt, "truncate", args[3], 5);
  const int64_t tail = Text(end, false).length;
  if (keep < tail || leeway < 0) throw rt.fail("truncate: expected a length of {} at least", tail);
  if (text.text().length - leeway <= keep) return text;
  std::string head = slice_text(text.string(), 0, keep - tail, 1);
  if (!truthy(args[1])) head = head.substr(0, std::min(head.rfind(' '), head.size()));
  return rt.text(head + end);
}

Value center_filter(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Values args = bind(rt, "center", arguments, {"width"});
  const Value method = get_attribute(rt, soft_text(rt, value), "center");
  return call(rt, method, {{Value::integer(int_argument(rt, "center", args[0], 80))}, {}});
}

Value format_filter(Runtime& rt, const Value& value, const Arguments& arguments) {
  const std::string text = to_text(rt, value);
  if (arguments.named.empty()) return format_percent(rt, text, rt.tuple(arguments.positional));
  std::vector<Pair> pairs;
  for (const auto& [name, argument] : arguments.named) pairs.emplace_back(rt.text(name), argument);
  return format_percent(rt, text, rt.dict(std::move(pairs)));
}

Value word_count_filter(Runtime& rt, const Value& value, const Arguments&) {
  const Value text = soft_text(rt, value);
  int64_t words = 0;
  bool inside = false;
  for (const std::string& s = text.string(); const char c : s) {
    const bool word = c == '_' || std::isalnum(uint8_t(c)) || uint8_t(c) >= 0x80;
    words += word && !inside;
    inside = word;
  }
  return Value::integer(words);
}

/// float() of a string as Python reads it.
std::optional<double> read_float(std::string_view text) {
  text = strip(text, nullptr, true, true);
  if (text.starts_with('+')) text.remove_prefix(1);
  double number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure == std::errc::invalid_argument || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return number;
}

/// int() of a string in a base from 2 to 36; base 0 and prefixes are read as Python does.
std::optional<int64_t> read_integer(std::string_view text, int64_t base) {
  text = strip(text, nullptr, true, true);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const auto prefix = [&](char letter, int64_t of) {
    const bool has = text.size() > 2 && text[0] == '0' && (text[1] | 0x20) == letter && (base == of || base == 0);
    if (has) text.remove_prefix(2);
    if (has) base = of;
  };
  prefix('x', 16);
  prefix('o', 8);
  prefix('b', 2);
  if (base == 0) base = 10;
  int64_t number = 0;
  if (text.empty() || text[0] == '-') return std::nullopt;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number, int(base));
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return negative ? -number : number;
}

Value int_filter(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Values args = bind(rt, "int", arguments, {"default", "base"});
  const Value fallback = args[0].is_undefined() ? Value::integer(0) : args[0];
  const int64_t base = int_argument(rt, "int", args[1], 10);
  if (base != 0 && (base < 2 || base > 36)) throw rt.fail("int: the base is {}; expected 2 to 36", base);
  if (value.is_undefined()) rt.fail_undefined(value);
  if (value.is_integer()) return Value::integer(value.as_int());
  double number = NAN;
  if (value.is_string()) {
    if (const auto whole = read_integer(value.string(), base)) return Value::integer(*whole);
    number = read_float(value.string()).value_or(NAN);
  } else if (value.is_number()) {
    number = value.as_double();
  }
  if (!(std::abs(number) < 9.2e18)) return fallback;
  return Value::integer(int64_t(number));
}

Value float_filter(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Values args = bind(rt, "float", arguments, {"default"});
  if (value.is_undefined()) rt.fail_undefined(value);
  if (value.is_number()) return Value::number(value.as_double());
  if (value.is_string())
    if (const auto number = read_float(value.string())) return Value::number(*number);
  return args[0].is_undefined() ? Value::number(0) : args[0];
}

Value abs_filter(Runtime& rt, const Value& value, const Arguments&) {
  if (value.kind() == Kind::kFloat) return Value::number(std::abs(value.as_double()));
  if (value.is_integer() && value.as_int() >= 0) return Value::integer(value.as_int());
  return negate(rt, value);
}

Value round_filter(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Values args = bind(rt, "round", arguments, {"precision", "method"});
  const int64_t digits = int_argument(rt, "round", args[0], 0);
  const std::string method = args[1].is_undefined() ? "common" : to_text(rt, args[1]);
  if (value.is_undefined()) rt.fail_undefined(value);
  if (!value.is_number()) throw rt.fail("round: wants a number, not a {}", type_name(value));
  if (digits < -300 || digits > 300) throw rt.fail("round: a precision of {}; expected -300 to 300", digits);
  const double number = value.as_double(), scale = std::pow(10.0, double(digits));
  if (method == "floor") return Value::number(std::floor(number * scale) / scale);
  if (method == "ceil") return Value::number(std::ceil(number * scale) / scale);
  if (method != "common") throw rt.fail("round: the method is '{}'; expected common, ceil or floor", method);
  if (value.is_integer() && digits >= 0) return Value::integer(value.as_int());
  if (value.is_integer()) return Value::integer(int64_t(std::nearbyint(number * scale) / scale));
  if (digits <= 0) return Value::number(std::nearbyint(number * scale) / scale);
  // Python rounds the exact binary value, as printing it does.
  return Value::number(read_float(fmt::format("{:.{}f}", number, digits)).value_or(number));
}

constexpr FilterRow kRows[] = {
    {"upper", case_filter<upper>},
    {"lower", case_filter<lower>},
    {"capitalize", case_filter<capitalize>},
    {"title", title_filter},
    {"trim", trim_filter},
    {"string", string_filter},
    {"safe", safe_filter},
    {"escape", escape_filter},
    {"e", escape_filter},
    {"forceescape", force_escape_filter},
    {"replace", replace_filter},
    {"indent", indent_filter},
    {"truncate", truncate_filter},
    {"center", center_filter},
    {"format", format_filter},
    {"wordcount", word_count_filter},
    {"int", int_filter},
    {"float", float_filter},
    {"abs", abs_filter},
    {"round", round_filter},
    {"tojson", to_json},
};

}  // namespace

std::span<const FilterRow> text_filters() { return kRows; }

}  // namespace espalier::jinja
