// str() and repr().
#include <charconv>
#include <cmath>

#include "text/jinja_runtime.h"
#include "text/jinja_string.h"
#include "text/utf8.h"

namespace espalier::jinja {
namespace {

void write_items(TextBuilder& out, Runtime& rt, const Sequence& sequence) {
  constexpr const char* kOpen[] = {"[", "(", "[", "dict_items([", "dict_keys([", "dict_values(["};
  constexpr const char* kClose[] = {"]", ")", "]", "])", "])", "])"};
  out.add(kOpen[int(sequence.type)]);
  bool first = true;
  for (const Value& item : sequence.items) {
    if (!std::exchange(first, false)) out.add(", ");
    write_repr(out, rt, item);
  }
  if (sequence.type == SequenceType::kTuple && sequence.items.size() == 1) out.add(',');
  out.add(kClose[int(sequence.type)]);
}

void write_range(TextBuilder& out, const Values& items) {
  const int64_t begin = items.empty() ? 0 : items[0].as_int();
  const int64_t step = items.size() > 1 ? items[1].as_int() - begin : 1;
  const int64_t end = items.empty() ? 0 : items.back().as_int() + (step > 0 ? 1 : -1);
  out.add(step == 1 ? fmt::format("range({}, {})", begin, end) : fmt::format("range({}, {}, {})", begin, end, step));
}

void write_pairs(TextBuilder& out, Runtime& rt, const Dict& dict) {
  out.add('{');
  bool first = true;
  for (const auto& [key, value] : dict.pairs) {
    if (!std::exchange(first, false)) out.add(", ");
    write_repr(out, rt, key);
    out.add(": ");
    write_repr(out, rt, value);
  }
  out.add('}');
}

void write_space(TextBuilder& out, Runtime& rt, const Namespace& space) {
  out.add("<Namespace {");
  bool first = true;
  for (const auto& [name, value] : space.attributes) {
    if (!std::exchange(first, false)) out.add(", ");
    out.add(repr_text(name) + ": ");
    write_repr(out, rt, value);
  }
  out.add("}>");
}

}  // namespace

std::string repr_text(std::string_view text) {
  const bool apostrophe = text.find('\'') != std::string_view::npos;
  const char quote = apostrophe && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, quote);
  for (size_t at = 0; at < text.size();) {
    int size = 0;
    const uint32_t c = utf8_decode(reinterpret_cast<const uint8_t*>(text.data()) + at, size);
    if (c == uint32_t(quote) || c == '\\')
      out += {'\\', char(c)};
    else if (c == '\n')
      out += "\\n";
    else if (c == '\r')
      out += "\\r";
    else if (c == '\t')
      out += "\\t";
    else if (is_printable(c))
      out += text.substr(at, size_t(size));
    else
      out += c < 0x100 ? fmt::format("\\x{:02x}", c)
                       : c < 0x10000 ? fmt::format("\\u{:04x}", c) : fmt::format("\\U{:08x}", c);
    at += size_t(size);
  }
  return out + quote;
}

// The shortest digits that read back as the same number; written plainly from 1e-4 to below 1e16.
std::string repr_number(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, number, std::chars_format::scientific).ptr;
  const std::string text(buffer, end);
  const size_t e = text.find('e');
  const int exponent = std::stoi(text.substr(e + 1));
  if (exponent < -4 || exponent >= 16)
    return fmt::format("{}e{}{:02}", text.substr(0, e), exponent < 0 ? '-' : '+', std::abs(exponent));
  const auto plain = std::to_chars(buffer, buffer + sizeof buffer, number, std::chars_format::fixed).ptr;
  std::string out(buffer, plain);
  return out.find('.') == std::string::npos ? out + ".0" : out;
}

// A namespace may hold a list that holds the namespace, so the bound on nested values is none here: each level counts
// as evaluation.
void write_repr(TextBuilder& out, Runtime& rt, const Value& value) {
  const Depth level(rt);
  rt.step();
  switch (value.kind()) {
    case Kind::kUndefined: return out.add("Undefined");
    case Kind::kNone: return out.add("None");
    case Kind::kBool: return out.add(value.as_int() ? "True" : "False");
    case Kind::kInt: return out.add(std::to_string(value.as_int()));
    case Kind::kFloat: return out.add(repr_number(value.as_double()));
    case Kind::kString:
      rt.spend_text(value.string().size());
      if (value.text().safe) return out.add("Markup(" + repr_text(value.string()) + ")");
      return out.add(repr_text(value.string()));
    case Kind::kSequence:
      if (value.is_sequence(SequenceType::kIterator)) return out.add("<generator object>");
      if (value.is_sequence(SequenceType::kRange)) return write_range(out, value.sequence().items);
      return write_items(out, rt, value.sequence());
    case Kind::kDict: return write_pairs(out, rt, value.dict());
    case Kind::kNamespace: return write_space(out, rt, value.space());
    case Kind::kCallable: return out.add(value.callable().describe());
  }
}

void write_text(TextBuilder& out, Runtime& rt, const Value& value) {
  if (value.is_string())
    out.add(value.string());
  else if (!value.is_undefined())
    write_repr(out, rt, value);
}

std::string to_text(Runtime& rt, const Value& value) {
  if (value.is_string()) return value.string();
  TextBuilder out(rt);
  write_text(out, rt, value);
  return out.take();
}

}  // namespace espalier::jinja
