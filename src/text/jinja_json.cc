// The filter tojson: Python's json.dumps with the arguments that transformers gives it.
#include <algorithm>

#include "text/jinja_filters.h"
#include "text/jinja_string.h"
#include "text/utf8.h"

namespace espalier::jinja {
namespace {

struct Style {
  bool ascii = false, sort_keys = false;
  bool lines = false;         // one item a line
  std::string indent;         // of one level
  std::string item = ", ", key = ": ";
};

void append_escape(std::string& out, uint32_t c) {
  if (c >= 0x10000) {
    out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((c - 0x10000) >> 10), 0xDC00 + ((c - 0x10000) & 0x3FF));
    return;
  }
  out += fmt::format("\\u{:04x}", c);
}

std::string quoted(std::string_view text, bool ascii) {
  std::string out = "\"";
  for (size_t at = 0; at < text.size();) {
    int size = 0;
    const uint32_t c = utf8_decode(reinterpret_cast<const uint8_t*>(text.data()) + at, size);
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      case '\b': out += "\\b"; break;
      case '\f': out += "\\f"; break;
      default:
        if (c < 0x20 || (ascii && c > 0x7F))
          append_escape(out, c);
        else
          out += text.substr(at, size_t(size));
    }
    at += size_t(size);
  }
  return out + '"';
}

std::string json_number(double number) {
  const std::string text = repr_number(number);
  return text == "nan" ? "NaN" : text == "inf" ? "Infinity" : text == "-inf" ? "-Infinity" : text;
}

class Writer {
 public:
  Writer(Runtime& rt, const Style& style, TextBuilder& out) : rt_(rt), style_(style), out_(out) {}

  void write(const Value& value, int level) {
    rt_.step();
    switch (value.kind()) {
      case Kind::kNone: return out_.add("null");
      case Kind::kBool: return out_.add(value.as_int() ? "true" : "false");
      case Kind::kInt: return out_.add(std::to_string(value.as_int()));
      case Kind::kFloat: return out_.add(json_number(value.as_double()));
      case Kind::kString: return out_.add(quoted(value.string(), style_.ascii));
      case Kind::kDict: return write_dict(value.dict(), level);
      case Kind::kSequence:
        if (value.is_sequence(SequenceType::kList) || value.is_sequence(SequenceType::kTuple))
          return write_items(value.sequence().items, level);
        break;
      default: break;
    }
    throw rt_.fail("Object of type {} is not JSON serializable", type_name(value));
  }

 private:
  void new_line(int level) {
    if (!style_.lines) return;
    out_.add('\n');
    for (int i = 0; i < level; ++i) out_.add(style_.indent);
  }

  void write_items(const Values& items, int level) {
    if (items.empty()) return out_.add("[]");
    out_.add('[');
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_.add(style_.item);
      new_line(level + 1);
      write(items[i], level + 1);
    }
    new_line(level);
    out_.add(']');
  }

  void write_dict(const Dict& dict, int level) {
    if (dict.pairs.empty()) return out_.add("{}");
    std::vector<const Pair*> pairs;
    for (const Pair& pair : dict.pairs) pairs.push_back(&pair);
    if (style_.sort_keys)
      std::stable_sort(pairs.begin(), pairs.end(),
                       [&](const Pair* a, const Pair* b) { return less(rt_, a->first, b->first); });
    out_.add('{');
    for (size_t i = 0; i < pairs.size(); ++i) {
      if (i > 0) out_.add(style_.item);
      new_line(level + 1);
      write_key(pairs[i]->first);
      out_.add(style_.key);
      write(pairs[i]->second, level + 1);
    }
    new_line(level);
    out_.add('}');
  }

  // Keys that are no text are written as their value would be, in quotes.
  void write_key(const Value& key) {
    if (key.is_string()) return write(key, 0);
    out_.add('"');
    write(key, 0);
    out_.add('"');
  }

  Runtime& rt_;
  const Style& style_;
  TextBuilder& out_;
};

Style style_of(Runtime& rt, const Values& args) {
  const Value &ascii = args[0], &indent = args[1], &separators = args[2], &sort_keys = args[3];
  Style style;
  style.ascii = truthy(ascii);
  style.sort_keys = truthy(sort_keys);
  if (!indent.is_undefined() && !indent.is_none()) {
    style.lines = true;
    style.item = ",";
    if (indent.is_string()) {
      style.indent = indent.string();
    } else {
      const int64_t width = int_argument(rt, "tojson", indent, 0);
      if (width > 1000) throw rt.fail("tojson: an indent of {}; expected 1000 at most", width);
      style.indent = std::string(size_t(std::max<int64_t>(width, 0)), ' ');
    }
  }
  if (!separators.is_undefined() && !separators.is_none()) {
    const Value pair = walk(rt, separators);
    const Values& two = pair.sequence().items;
    if (two.size() != 2 || !two[0].is_string() || !two[1].is_string())
      throw rt.fail("tojson: separators must be two strings");
    style.item = two[0].string();
    style.key = two[1].string();
  }
  return style;
}

}  // namespace

Value to_json(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Values args = bind(rt, "tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  const Style style = style_of(rt, args);
  TextBuilder out(rt);
  Writer(rt, style, out).write(value, 0);
  return rt.text(out.take());
}

}  // namespace espalier::jinja
