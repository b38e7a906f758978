// "{:>8}".format(x) and "%8s" % x: both read to one FormatSpec, which lays a value out.
#include <algorithm>
#include <cctype>
#include <cmath>

#include "text/jinja_runtime.h"
#include "text/jinja_string.h"

namespace espalier::jinja {
namespace {

struct FormatSpec {
  std::string fill = " ";
  char align = 0;  // '<', '>', '^', '=' (pad behind the sign); 0: by the type of the value
  char sign = '-';
  bool alternate = false;
  int64_t width = 0;
  char grouping = 0;  // ',' or '_'
  int64_t precision = -1;
  char type = 0;
  bool empty = true;
};

int64_t read_number(Runtime& rt, std::string_view text, size_t& at) {
  int64_t value = 0;
  for (; at < text.size() && std::isdigit(uint8_t(text[at])); ++at) {
    value = value * 10 + (text[at] - '0');
    if (value > int64_t(rt.options().limits.text_bytes)) throw rt.fail("the width in format '{}' is too large", text);
  }
  return value;
}

FormatSpec read_spec(Runtime& rt, std::string_view text) {
  FormatSpec spec;
  spec.empty = text.empty();
  size_t at = 0;
  const auto is_one_of = [&](size_t i, std::string_view set) {
    return i < text.size() && set.find(text[i]) != set.npos;
  };
  const auto is_align = [&](size_t i) { return is_one_of(i, "<>^="); };
  const size_t fill = byte_of(text, 1);
  if (fill > 0 && is_align(fill)) {
    spec.fill = text.substr(0, fill);
    spec.align = text[fill];
    at = fill + 1;
  } else if (is_align(0)) {
    spec.align = text[at++];
  }
  if (is_one_of(at, "+- ")) spec.sign = text[at++];
  if (at < text.size() && text[at] == '#') spec.alternate = ++at;
  if (at < text.size() && text[at] == '0') {
    if (!spec.align) {
      spec.fill = "0";
      spec.align = '=';
    }
    ++at;
  }
  spec.width = read_number(rt, text, at);
  if (is_one_of(at, ",_")) spec.grouping = text[at++];
  if (at < text.size() && text[at] == '.') spec.precision = read_number(rt, text, ++at);
  if (at < text.size()) spec.type = text[at++];
  if (at != text.size()) throw rt.fail("invalid format specifier '{}'", text);
  return spec;
}

/// Fills up to the width; `sign` stands before what is padded with '='.
std::string pad(Runtime& rt, const FormatSpec& spec, const std::string& sign, const std::string& body, char align) {
  if (spec.align) align = spec.align;
  const int64_t missing = spec.width - Text(sign + body, false).length;
  if (missing <= 0) return sign + body;
  rt.spend_text(size_t(missing) * spec.fill.size());
  const auto fill = [&](int64_t n) {
    std::string out;
    for (int64_t i = 0; i < n; ++i) out += spec.fill;
    return out;
  };
  if (align == '=') return sign + fill(missing) + body;
  const int64_t left = align == '>' ? missing : align == '^' ? missing / 2 : 0;
  return fill(left) + sign + body + fill(missing - left);
}

std::string grouped(std::string digits, char separator) {
  const size_t end = std::min(digits.find_first_of(".e"), digits.size());
  for (int64_t at = int64_t(end) - 3; at > 0; at -= 3) digits.insert(size_t(at), 1, separator);
  return digits;
}

std::string sign_of(const FormatSpec& spec, bool negative) {
  return negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
}

std::string number_body(Runtime& rt, const FormatSpec& spec, double value) {
  const int precision = int(spec.precision < 0 ? 6 : std::min<int64_t>(spec.precision, 400));
  switch (spec.type) {
    case 'f':
    case 'F': return fmt::format("{:.{}f}", value, precision);
    case 'e': return fmt::format("{:.{}e}", value, precision);
    case 'E': return fmt::format("{:.{}E}", value, precision);
    case 'g':
    case 'n': return fmt::format("{:.{}g}", value, std::max(precision, 1));
    case 'G': return fmt::format("{:.{}G}", value, std::max(precision, 1));
    case '%': return fmt::format("{:.{}f}%", value * 100, precision);
    case 0: {
      if (spec.precision < 0) return repr_number(value);
      const std::string text = fmt::format("{:.{}g}", value, std::max(precision, 1));
      return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
    }
    default: throw rt.fail("unknown format code '{}' for a float", spec.type);
  }
}

std::string lay_out_float(Runtime& rt, const FormatSpec& spec, double value) {
  std::string body = number_body(rt, spec, std::abs(value));
  if (spec.grouping) body = grouped(body, spec.grouping);
  return pad(rt, spec, sign_of(spec, std::signbit(value) && !std::isnan(value)), body, '>');
}

std::string lay_out_integer(Runtime& rt, const FormatSpec& spec, int64_t value) {
  const uint64_t magnitude = value < 0 ? 0 - uint64_t(value) : uint64_t(value);
  std::string body;
  switch (spec.type) {
    case 0:
    case 'd':
    case 'i':
    case 'u':
    case 'n': body = std::to_string(magnitude); break;
    case 'x': body = fmt::format("{}{:x}", spec.alternate ? "0x" : "", magnitude); break;
    case 'X': body = fmt::format("{}{:X}", spec.alternate ? "0X" : "", magnitude); break;
    case 'o': body = fmt::format("{}{:o}", spec.alternate ? "0o" : "", magnitude); break;
    case 'b': body = fmt::format("{}{:b}", spec.alternate ? "0b" : "", magnitude); break;
    default: return lay_out_float(rt, spec, double(value));
  }
  if (spec.grouping) body = grouped(body, spec.grouping);
  return pad(rt, spec, sign_of(spec, value < 0), body, '>');
}

std::string lay_out(Runtime& rt, const FormatSpec& spec, const Value& value) {
  if (value.is_undefined() && !spec.empty) rt.fail_undefined(value);
  if (spec.empty) return to_text(rt, value);
  if (value.is_integer()) return lay_out_integer(rt, spec, value.as_int());
  if (value.is_number()) return lay_out_float(rt, spec, value.as_double());
  if (!value.is_string()) throw rt.fail("unsupported format string passed to {}", type_name(value));
  if (spec.type != 0 && spec.type != 's') throw rt.fail("unknown format code '{}' for a string", spec.type);
  std::string text = value.string();
  if (spec.precision >= 0) text = slice_text(text, 0, spec.precision, 1);
  return pad(rt, spec, "", text, '<');
}

std::string as_repr(Runtime& rt, const Value& value) {
  TextBuilder out(rt);
  write_repr(out, rt, value);
  return out.take();
}

/// What a replacement field such as "0", "name", "a.b[c]" or "" (the next) stands for.
Value find_field(Runtime& rt, std::string_view field, const Arguments& arguments, int64_t& next) {
  const size_t end = std::min(field.find_first_of(".["), field.size());
  const std::string_view head = field.substr(0, end);
  Value value;
  size_t at = 0;
  if (head.empty() || std::isdigit(uint8_t(head[0]))) {
    const int64_t index = head.empty() ? next++ : read_number(rt, head, at);
    if (index >= int64_t(arguments.positional.size()))
      throw rt.fail("format(): replacement index {} is out of range for {} arguments", index,
                    arguments.positional.size());
    value = arguments.positional[size_t(index)];
  } else {
    const auto found = std::find_if(arguments.named.begin(), arguments.named.end(),
                                    [&](const auto& named) { return named.first == head; });
    if (found == arguments.named.end()) throw rt.fail("format(): no argument is named '{}'", head);
    value = found->second;
  }
  for (field.remove_prefix(end); !field.empty();) {
    if (field[0] == '.') {
      const size_t stop = std::min(field.find_first_of(".[", 1), field.size());
      value = get_attribute(rt, value, std::string(field.substr(1, stop - 1)));
      field.remove_prefix(stop);
    } else {
      const size_t stop = field.find(']');
      if (field[0] != '[' || stop == std::string_view::npos) throw rt.fail("format(): bad field '{}'", field);
      const std::string_view key = field.substr(1, stop - 1);
      size_t digits = 0;
      const int64_t index = read_number(rt, key, digits);
      value = get_item(rt, value, digits == key.size() && digits > 0 ? Value::integer(index)
                                                                      : rt.text(std::string(key)));
      field.remove_prefix(stop + 1);
    }
  }
  return value;
}

void write_field(TextBuilder& out, Runtime& rt, std::string_view inside, const Arguments& arguments, int64_t& next) {
  const size_t colon = std::min(inside.find(':'), inside.size());
  const std::string_view spec_text = colon < inside.size() ? inside.substr(colon + 1) : "";
  std::string_view field = inside.substr(0, colon);
  if (inside.find('{') != std::string_view::npos)
    throw rt.unsupported("a replacement field inside a format specifier ('{}')", inside);
  char conversion = 0;
  if (const size_t mark = field.find('!'); mark != std::string_view::npos) {
    conversion = mark + 2 == field.size() ? field[mark + 1] : '?';
    field = field.substr(0, mark);
  }
  Value value = find_field(rt, field, arguments, next);
  if (conversion == 'r') value = rt.text(as_repr(rt, value));
  else if (conversion == 's') value = rt.text(to_text(rt, value));
  else if (conversion) throw rt.fail("format(): unknown conversion in '{}'", inside);
  out.add(lay_out(rt, read_spec(rt, spec_text), value));
}

/// Reads the flags, width, precision and type behind a '%'.
FormatSpec read_percent(Runtime& rt, std::string_view format, size_t& at) {
  FormatSpec spec;
  spec.empty = false;
  for (; at < format.size(); ++at) {
    const char flag = format[at];
    if (flag == '-') spec.align = '<';
    else if (flag == '+' || flag == ' ') spec.sign = flag;
    else if (flag == '#') spec.alternate = true;
    else if (flag == '0') spec.fill = "0";
    else break;
  }
  spec.width = read_number(rt, format, at);
  if (at < format.size() && format[at] == '.') spec.precision = read_number(rt, format, ++at);
  if (at >= format.size()) throw rt.fail("incomplete format '{}'", format);
  spec.type = format[at++];
  if (spec.align == '<') spec.fill = " ";
  if (spec.fill == "0") spec.align = '=';
  return spec;
}

std::string percent_value(Runtime& rt, FormatSpec spec, const Value& value) {
  const bool text = spec.type == 's' || spec.type == 'r' || spec.type == 'a' || spec.type == 'c';
  if (text) {
    const bool from_code = spec.type == 'c' && value.is_integer();
    if (from_code) throw rt.unsupported("%c of a number");
    const std::string body = spec.type == 's' || spec.type == 'c' ? to_text(rt, value) : as_repr(rt, value);
    spec.type = 's';
    spec.fill = " ";
    if (spec.align != '<') spec.align = '>';
    return lay_out(rt, spec, rt.text(body));
  }
  if (value.is_undefined()) rt.fail_undefined(value);
  if (!value.is_number()) throw rt.fail("%{} format: a number is required, not {}", spec.type, type_name(value));
  const bool integral = std::string_view("diuxXo").find(spec.type) != std::string_view::npos;
  if (!integral && std::string_view("eEfFgG").find(spec.type) == std::string_view::npos)
    throw rt.fail("unsupported format character '{}'", spec.type);
  if (!integral) return lay_out_float(rt, spec, value.as_double());
  const double number = value.as_double();
  if (!value.is_integer() && !(std::abs(number) < 9e18)) throw rt.unsupported("an integer beyond 64 bits");
  return lay_out_integer(rt, spec, value.is_integer() ? value.as_int() : int64_t(number));
}

}  // namespace

Value format_braces(Runtime& rt, const std::string& format, const Arguments& arguments) {
  TextBuilder out(rt);
  int64_t next = 0;
  for (size_t at = 0; at < format.size(); ++at) {
    const char c = format[at];
    if ((c == '{' || c == '}') && at + 1 < format.size() && format[at + 1] == c) {
      out.add(c);
      ++at;
    } else if (c == '}') {
      throw rt.fail("format(): a single '}}' in '{}'", format);
    } else if (c == '{') {
      const size_t end = format.find('}', at);
      if (end == std::string::npos) throw rt.fail("format(): a '{{' without its '}}' in '{}'", format);
      write_field(out, rt, std::string_view(format).substr(at + 1, end - at - 1), arguments, next);
      at = end;
    } else {
      out.add(c);
    }
  }
  return rt.text(out.take());
}

Value format_percent(Runtime& rt, const std::string& format, const Value& values) {
  const bool many = values.is_sequence(SequenceType::kTuple);
  const size_t count = many ? values.sequence().items.size() : 1;
  TextBuilder out(rt);
  size_t next = 0;
  for (size_t at = 0; at < format.size();) {
    if (format[at] != '%') {
      out.add(format[at++]);
      continue;
    }
    if (++at < format.size() && format[at] == '%') {
      out.add(format[at++]);
      continue;
    }
    Value value;
    const bool named = at < format.size() && format[at] == '(';
    if (named) {
      const size_t end = std::min(format.find(')', at), format.size() - 1);
      if (!values.is_dict()) throw rt.fail("format '{}' requires a mapping", format);
      value = get_item(rt, values, rt.text(format.substr(at + 1, end - at - 1)));
      at = end + 1;
      next = count;
    }
    const FormatSpec spec = read_percent(rt, format, at);
    if (!named && next >= count) throw rt.fail("not enough arguments for format '{}'", format);
    if (!named) value = many ? values.sequence().items[next] : values;
    if (!named) ++next;
    out.add(percent_value(rt, spec, value));
  }
  if (next < count && !values.is_dict()) throw rt.fail("not all arguments were converted by format '{}'", format);
  return rt.text(out.take());
}

}  // namespace espalier::jinja
