#include "text/json_schema.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/json.h"
#include "base/json_value.h"
#include "text/json_pattern.h"
#include "text/json_schema_keywords.h"

namespace espalier {
namespace {

using Part = JsonGrammar::Part;
using std::optional;

constexpr size_t kMaxText = size_t{1} << 20;
constexpr int64_t kMaxWork = int64_t{1} << 21;  // values of JSON looked at; merging copies them
constexpr int kMaxDepth = 200;                  // of schemas inside schemas, merged ones counted again
constexpr size_t kMaxPrefix = 256;
constexpr size_t kMaxName = 512;

/// Formats as patterns. Days are those of their months; 29 February is that of leap years.
const std::map<std::string, std::string>& formats() {
  static const std::string kDate =
      R"((?:\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|)"
      R"(02-(?:0[1-9]|1\d|2[0-8]))|(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29))";
  static const std::string kTime =
      R"((?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d))";
  static const std::map<std::string, std::string> patterns = {
      {"date", "^" + kDate + "$"},
      {"time", "^" + kTime + "$"},
      {"date-time", "^" + kDate + "T" + kTime + "$"},
      {"uuid", "^[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"},
      {"ipv4", R"(^(?:(?:\d|[1-9]\d|1\d\d|2[0-4]\d|25[0-5])\.){3}(?:\d|[1-9]\d|1\d\d|2[0-4]\d|25[0-5])$)"},
      {"email", R"(^[A-Za-z0-9_%+-]+(?:\.[A-Za-z0-9_%+-]+)*@)"
                R"((?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.)+[A-Za-z]{2,}$)"},
  };
  return patterns;
}

class SchemaReader {
 public:
  SchemaReader(JsonGrammar& json, const OrderedJson& root, const std::string& what)
      : root_(root), what_(what), g_(json.source()), json_(json) {}

  Part read() {
    const Part top = reference("#", what_);
    while (!pending_.empty()) {  // instead of recursion: references may be a long chain
      const auto [pointer, rule] = pending_.back();
      pending_.pop_back();
      g_.define(rule, schema(*find(pointer, what_), place(pointer), 0));
    }
    return top;
  }

 private:
  struct Property {
    std::string name;
    Part value;
    bool required;
  };

  std::string place(const std::string& pointer) const { return what_ + ": at " + pointer; }

  [[noreturn]] static void bad(const std::string& at, const std::string& problem) {
    throw error(Code::kBadData, "{}: {}", at, problem);
  }
  [[noreturn]] static void unsupported(const std::string& at, const std::string& problem) {
    throw error(Code::kUnsupported, "{}: {}", at, problem);
  }

  void work(const OrderedJson& json, const std::string& at) {
    if (++work_ > kMaxWork) unsupported(at, "the schema is too large with its parts written out; make it simpler");
    if (json.is_structured())
      for (const OrderedJson& x : json) work(x, at);
  }

  /// What a reference within the schema points to (RFC 6901).
  const OrderedJson* find(const std::string& pointer, const std::string& at) const {
    const OrderedJson* json = &root_;
    if (!pointer.starts_with("#"))
      unsupported(at, fmt::format("$ref '{}' leaves the schema; put what it means under $defs", pointer));
    if (pointer != "#" && !pointer.starts_with("#/")) unsupported(at, fmt::format("$ref '{}' is no path", pointer));
    for (size_t from = 2; from <= pointer.size() && pointer != "#";) {
      const size_t slash = std::min(pointer.find('/', from), pointer.size());
      std::string key = pointer.substr(from, slash - from);
      for (const auto& [code, text] : {std::pair("~1", "/"), {"~0", "~"}})
        for (size_t i = 0; (i = key.find(code, i)) != key.npos; ++i) key.replace(i, 2, text);
      const bool is_index = json->is_array() && !key.empty() && key.size() < 9 &&
                            std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; });
      if (json->is_object() && json->contains(key)) json = &(*json)[key];
      else if (is_index && std::stoul(key) < json->size()) json = &(*json)[std::stoul(key)];
      else bad(at, fmt::format("$ref '{}' points to nothing", pointer));
      from = slash + 1;
    }
    return json;
  }

  Part reference(const std::string& pointer, const std::string& at) {
    find(pointer, at);
    const auto [found, fresh] = references_.try_emplace(pointer, 0);
    if (fresh) {
      found->second = g_.declare(pointer);
      pending_.emplace_back(pointer, found->second);
    }
    return g_.rule(found->second);
  }

  static optional<std::string> ref_of(const OrderedJson& s, const std::string& at) {
    if (!s.contains("$ref")) return std::nullopt;
    if (!s["$ref"].is_string()) bad(at, "$ref is no text");
    return s["$ref"].get<std::string>();
  }

  Part schema(const OrderedJson& s, const std::string& at, int depth) {
    if (depth > kMaxDepth) unsupported(at, "schemas are nested too deep");
    if (s == true) return json_.value();
    if (s == false) bad(at, "the schema 'false' accepts nothing");
    if (!s.is_object()) bad(at, fmt::format("found {}, expected a schema: an object, true or false", s.type_name()));
    work(s, at);
    check_keywords(s, at);
    const bool alone = std::all_of(s.items().begin(), s.items().end(), [](const auto& item) {
      return item.key() == "$ref" || is_annotation(item.key());
    });
    if (const auto ref = ref_of(s, at); ref && alone) return reference(*ref, at);
    if (s.contains("$ref") || s.contains("allOf")) return schema(merged(s, at, 0), at, depth + 1);
    for (const char* key : {"anyOf", "oneOf"})
      if (s.contains(key)) return one_of(s, key, at, depth);
    if (s.contains("const") || s.contains("enum")) return listed(s, at);
    std::vector<Part> ways;
    for (const std::string& type : types_of(s, at)) ways.push_back(typed(s, type, at, depth));
    return g_.choice(std::move(ways));
  }

  /// A schema without $ref and allOf that means the same.
  OrderedJson merged(const OrderedJson& s, const std::string& at, int depth) {
    if (depth > kMaxDepth) bad(at, "$ref and allOf lead back to themselves");
    work(s, at);
    if (s == true) return OrderedJson::object();
    if (!s.is_object()) bad(at, "allOf and $ref beside other keywords need schemas that are objects");
    check_keywords(s, at);
    if (!s.contains("$ref") && !s.contains("allOf")) return s;
    OrderedJson result = s;
    result.erase("$ref");
    result.erase("allOf");
    if (const auto ref = ref_of(s, at)) result = merge_schemas(result, merged(*find(*ref, at), at, depth + 1), at);
    if (s.contains("allOf")) {
      if (!s["allOf"].is_array() || s["allOf"].empty()) bad(at, "allOf is no list of schemas");
      for (const OrderedJson& x : s["allOf"]) result = merge_schemas(result, merged(x, at, depth + 1), at);
    }
    return result;
  }

  Part one_of(const OrderedJson& s, const std::string& key, const std::string& at, int depth) {
    const OrderedJson& list = s[key];
    if (!list.is_array() || list.empty()) bad(at, key + " is no list of schemas");
    OrderedJson rest = s;
    rest.erase(key);
    const bool alone = std::all_of(rest.items().begin(), rest.items().end(),
                                   [](const auto& item) { return is_annotation(item.key()); });
    if (key == "oneOf") require_exclusive(list, at);
    std::vector<Part> ways;
    for (size_t i = 0; i < list.size(); ++i) {
      const std::string here = fmt::format("{}/{}/{}", at, key, i);
      if (list[i] == false) continue;
      ways.push_back(alone ? schema(list[i], here, depth + 1)
                           : schema(merge_schemas(rest, merged(list[i], here, 0), here), here, depth + 1));
    }
    if (ways.empty()) bad(at, key + " accepts nothing");
    return g_.choice(std::move(ways));
  }

  void require_exclusive(const OrderedJson& list, const std::string& at) {
    std::vector<OrderedJson> whole;
    for (const OrderedJson& x : list) whole.push_back(x == false ? x : merged(x, at, 0));
    for (size_t i = 0; i < whole.size(); ++i)
      for (size_t j = 0; j < i; ++j) {
        if (whole[i] == false || whole[j] == false) continue;
        work(whole[i], at);
        work(whole[j], at);
        if (!exclusive(whole[i], whole[j], at))
          unsupported(at, fmt::format("both oneOf/{} and oneOf/{} may accept a value; use anyOf, or tell them apart by "
                                      "type or by a required property of one value", j, i));
      }
  }

  /// The values that are listed, if they are.
  static optional<OrderedJson> values_of(const OrderedJson& s) {
    if (!s.is_object()) return std::nullopt;
    if (s.contains("const")) return OrderedJson::array({s["const"]});
    if (s.contains("enum") && s["enum"].is_array()) return s["enum"];
    return std::nullopt;
  }

  static std::string type_of(const OrderedJson& value) {
    if (value.is_number()) return value.is_number_float() && value != std::floor(double(value)) ? "number" : "integer";
    return value.type_name();
  }

  static bool is_of(const std::string& type, const std::string& wanted) {
    return type == wanted || (type == "integer" && wanted == "number");
  }

  /// Whether no value can be of both, as far as types, listed values and required properties show it.
  bool exclusive(const OrderedJson& a, const OrderedJson& b, const std::string& at) {
    const auto va = values_of(a), vb = values_of(b);
    if (va && vb)
      return std::none_of(va->begin(), va->end(),
                          [&](const OrderedJson& x) { return std::find(vb->begin(), vb->end(), x) != vb->end(); });
    if ((!va && a.contains("anyOf")) || (!vb && b.contains("anyOf"))) return false;
    std::vector<std::string> ta, tb;
    if (va) for (const OrderedJson& x : *va) ta.push_back(type_of(x));
    else ta = types_of(a, at);
    if (vb) for (const OrderedJson& x : *vb) tb.push_back(type_of(x));
    else tb = types_of(b, at);
    const auto meet = [&](const std::string& x) {
      return std::any_of(tb.begin(), tb.end(), [&](const std::string& y) { return is_of(x, y) || is_of(y, x); });
    };
    if (std::none_of(ta.begin(), ta.end(), meet)) return true;
    return ta == std::vector<std::string>{"object"} && ta == tb && told_apart(a, b);
  }

  bool told_apart(const OrderedJson& a, const OrderedJson& b) const {
    if (!a.contains("properties") || !b.contains("properties")) return false;
    for (const auto& [name, schema] : a["properties"].items()) {
      if (!b["properties"].contains(name) || !requires_name(a, name) || !requires_name(b, name)) continue;
      const auto va = values_of(schema), vb = values_of(b["properties"][name]);
      if (va && vb && std::none_of(va->begin(), va->end(), [&](const OrderedJson& x) {
            return std::find(vb->begin(), vb->end(), x) != vb->end();
          }))
        return true;
    }
    return false;
  }

  static bool requires_name(const OrderedJson& s, const std::string& name) {
    return s.contains("required") && s["required"].is_array() &&
           std::find(s["required"].begin(), s["required"].end(), OrderedJson(name)) != s["required"].end();
  }

  /// const and enum, as far as `type` allows them.
  Part listed(const OrderedJson& s, const std::string& at) {
    for (const auto& [key, value] : s.items())
      if (key != "const" && key != "enum" && key != "type" && !is_annotation(key))
        unsupported(at, fmt::format("'{}' beside const or enum; leave out the values that it forbids instead", key));
    if (s.contains("enum") && !s["enum"].is_array()) bad(at, "enum is no list");
    std::vector<Part> ways;
    const OrderedJson values = *values_of(s);
    for (const OrderedJson& x : values) {
      if (s.contains("type")) {
        const std::vector<std::string> types = types_of(s, at);
        if (std::none_of(types.begin(), types.end(), [&](const auto& t) { return is_of(type_of(x), t); })) continue;
      }
      const bool in_enum = !s.contains("enum") || std::find(s["enum"].begin(), s["enum"].end(), x) != s["enum"].end();
      if (!in_enum) continue;
      ways.push_back(g_.literal(x.dump()));
    }
    if (ways.empty()) bad(at, "no value of const or enum is left");
    return g_.choice(std::move(ways));
  }

  Part typed(const OrderedJson& s, const std::string& type, const std::string& at, int depth) {
    if (type == "object") return object(s, at, depth);
    if (type == "array") return array(s, at, depth);
    if (type == "string") return string(s, at);
    if (type == "number") return number(s, at);
    if (type == "integer") return integer(s, at);
    if (type == "boolean") return g_.choice({g_.literal("true"), g_.literal("false")});
    return g_.literal("null");
  }

  static optional<int64_t> count(const OrderedJson& s, const char* key, const std::string& at) {
    if (!s.contains(key)) return std::nullopt;
    if (!s[key].is_number_integer() || s[key] < 0 || s[key] > (int64_t{1} << 32))
      bad(at, fmt::format("{} is {}; expected a number from 0 on", key, s[key].dump()));
    return s[key].get<int64_t>();
  }

  std::pair<int64_t, optional<int64_t>> counts(const OrderedJson& s, const char* min, const char* max,
                                               const std::string& at) {
    const int64_t least = count(s, min, at).value_or(0);
    const optional<int64_t> most = count(s, max, at);
    if (most && *most < least) bad(at, fmt::format("{} is {} and {} is {}", min, least, max, *most));
    return {least, most};
  }

  Part string(const OrderedJson& s, const std::string& at) {
    const bool sized = s.contains("minLength") || s.contains("maxLength");
    if (s.contains("pattern") || s.contains("format")) {
      if (sized || (s.contains("pattern") && s.contains("format")))
        unsupported(at, "of pattern, format and the lengths of a string only one can be kept; put lengths into the "
                        "pattern");
      const OrderedJson& value = s.contains("pattern") ? s["pattern"] : s["format"];
      if (!value.is_string()) bad(at, "pattern or format is no text");
      if (s.contains("pattern")) return g_.named(at, json_pattern(json_, value.get<std::string>(), at));
      const auto found = formats().find(value.get<std::string>());
      if (found == formats().end())
        unsupported(at, fmt::format("the format '{}' is not known; there are date, time, date-time, uuid, ipv4 and "
                                    "email", value.get<std::string>()));
      return g_.named(at, json_pattern(json_, found->second, at));
    }
    const auto [min, max] = counts(s, "minLength", "maxLength", at);
    return sized ? g_.named(at, json_.string(min, max)) : json_.string();
  }

  Part number(const OrderedJson& s, const std::string& at) {
    for (const char* key : {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
      if (s.contains(key))
        unsupported(at, fmt::format("'{}' is known for integers alone; say \"type\": \"integer\", or check it "
                                    "afterwards", key));
    return json_.number();
  }

  /// A bound as the least, or the greatest, integer within it.
  static optional<int64_t> bound(const OrderedJson& s, const char* key, bool lower, bool exclusive,
                                 const std::string& at) {
    if (!s.contains(key)) return std::nullopt;
    const OrderedJson& value = s[key];
    const double number = value.is_number() ? double(value) : NAN;
    if (!(std::abs(number) < 9e18)) bad(at, fmt::format("{} is {}; expected a number within 9e18", key, value.dump()));
    if (value.is_number_integer()) return value.get<int64_t>() + (exclusive ? (lower ? 1 : -1) : 0);
    const double whole = lower ? std::ceil(number) : std::floor(number);
    return int64_t(whole) + (exclusive && whole == number ? (lower ? 1 : -1) : 0);
  }

  Part integer(const OrderedJson& s, const std::string& at) {
    optional<int64_t> min = bound(s, "minimum", true, false, at), max = bound(s, "maximum", false, false, at);
    if (const auto x = bound(s, "exclusiveMinimum", true, true, at)) min = std::max(min.value_or(*x), *x);
    if (const auto x = bound(s, "exclusiveMaximum", false, true, at)) max = std::min(max.value_or(*x), *x);
    if (min && max && *min > *max) bad(at, fmt::format("no integer is from {} to {}", *min, *max));
    return json_.integer(min, max);
  }

  Part array(const OrderedJson& s, const std::string& at, int depth) {
    const auto [min, max] = counts(s, "minItems", "maxItems", at);
    const bool has_items = s.contains("items");
    const bool none = has_items && s["items"] == false;
    if (s.contains("prefixItems") || (has_items && s["items"].is_array())) return tuple(s, min, max, at, depth);
    if (none && min > 0) bad(at, "items is false and minItems is not 0");
    const std::string here = at + "/items";
    const Part item = !has_items || none ? json_.value() : g_.named(here, schema(s["items"], here, depth + 1));
    return g_.named(at, json_.list('[', item, min, none ? optional<int64_t>(0) : max, ']'));
  }

  // From the back: what may follow when so many items are written.
  Part tuple(const OrderedJson& s, int64_t min, optional<int64_t> max, const std::string& at, int depth) {
    const std::string key = s.contains("prefixItems") ? "prefixItems" : "items";
    const OrderedJson& prefix = s[key];
    if (!prefix.is_array()) bad(at, key + " is no list of schemas");
    if (prefix.size() > kMaxPrefix) unsupported(at, fmt::format("prefixItems has more than {} schemas", kMaxPrefix));
    const int64_t size = int64_t(prefix.size());
    const bool more = key == "prefixItems" && s.contains("items") && s["items"] != false;
    const bool closed = key == "prefixItems" && s.contains("items") && s["items"] == false;
    if (closed && min > size)
      bad(at, fmt::format("minItems is {}, and there are {} prefixItems and no others", min, size));
    const auto comma = [&](Part item, int64_t i) {
      return i == 0 ? item : g_.sequence({g_.literal(","), json_.space(), item});
    };
    Part rest = g_.literal("");
    const int64_t last = more ? max.value_or(-1) : std::max(min, std::min(size, max.value_or(size)));
    if (more || last > size) {
      const Part item = more ? g_.named(at + "/items", schema(s["items"], at + "/items", depth + 1)) : json_.value();
      const auto left = last < 0 ? std::nullopt : optional(std::max<int64_t>(last - size, 0));
      if (size == 0) return g_.named(at, json_.list('[', item, min, left, ']'));
      rest = g_.repeat(comma(item, 1), std::max<int64_t>(min - size, 0), left);
    }
    for (int64_t i = size; i-- > 0;) {
      if (max && i >= *max) continue;
      const std::string here = fmt::format("{}/{}/{}", at, key, i);
      const Part item = g_.named(here, schema(prefix[size_t(i)], here, depth + 1));
      rest = g_.sequence({comma(item, i), rest});
      if (i >= min) rest = g_.optional(rest);
    }
    return g_.named(at, g_.sequence({g_.literal("["), json_.space(), rest, json_.space(), g_.literal("]")}));
  }

  Part object(const OrderedJson& s, const std::string& at, int depth) {
    const OrderedJson none = OrderedJson::object();
    const OrderedJson& properties = s.contains("properties") ? s["properties"] : none;
    if (!properties.is_object()) bad(at, "properties is no object");
    const OrderedJson additional = s.contains("additionalProperties") ? s["additionalProperties"]
                                                                      : OrderedJson(!s.contains("properties"));
    std::vector<Property> list;
    for (const auto& [name, value] : properties.items()) {
      const bool required = requires_name(s, name);
      if (value == false && !required) continue;
      const std::string here = at + "/properties/" + name;
      list.push_back({name, g_.named(here, schema(value, here, depth + 1)), required});
    }
    const std::string here = at + "/additionalProperties";
    const auto extra_value = [&] { return additional == false ? json_.value() : schema(additional, here, depth + 1); };
    add_required(s, additional, list, extra_value, at);
    if (list.empty() && additional == true) return json_.object();
    optional<Part> extra;
    if (additional != false) {
      std::vector<std::string> names;
      for (const Property& p : list) names.push_back(p.name);
      if (std::any_of(names.begin(), names.end(), [](const std::string& n) { return n.size() > kMaxName; }))
        unsupported(at, fmt::format("a property's name has more than {} bytes beside additionalProperties", kMaxName));
      extra = g_.named(here, member(names.empty() ? json_.string() : json_.string_unless(names), extra_value()));
    }
    return members(list, extra, at);
  }

  /// Names that `required` has and `properties` has not.
  template <class Value>
  void add_required(const OrderedJson& s, const OrderedJson& additional, std::vector<Property>& list, Value value,
                    const std::string& at) {
    if (!s.contains("required")) return;
    if (!s["required"].is_array()) bad(at, "required is no list of names");
    const bool forbidden = s.contains("additionalProperties") && additional == false;
    for (const OrderedJson& name : s["required"]) {
      if (!name.is_string()) bad(at, "required is no list of names");
      const auto text = name.get<std::string>();
      if (std::any_of(list.begin(), list.end(), [&](const Property& p) { return p.name == text; })) continue;
      if (forbidden) bad(at, fmt::format("'{}' is required, and additionalProperties is false", text));
      list.push_back({text, value(), true});
    }
  }

  Part member(Part name, Part value) { return g_.sequence({name, g_.literal(":"), json_.space(), value}); }

  // From the back, two rules for each property: how the object goes on before anything is written, and after something
  // is; only then comes a comma. Each is used by those before it, and a call at a rule's end costs no stack.
  Part members(const std::vector<Property>& list, optional<Part> extra, const std::string& at) {
    const Part close = g_.sequence({json_.space(), g_.literal("}")});
    const auto comma = [&](Part p) { return g_.sequence({g_.literal(","), json_.space(), p}); };
    Part after = close, first = g_.literal("}");
    if (extra) {
      const Part more = g_.repeat(comma(*extra), 0, std::nullopt);
      after = g_.named(at, g_.sequence({more, close}));
      first = g_.choice({first, g_.sequence({*extra, after})});
    }
    for (size_t i = list.size(); i-- > 0;) {
      const Part one = member(g_.literal(OrderedJson(list[i].name).dump()), list[i].value);
      const Part here = g_.sequence({one, after});
      first = list[i].required ? here : g_.named(at, g_.choice({here, first}));
      const Part then = comma(one);
      const Part with = g_.sequence({then, after});
      after = g_.named(at, list[i].required ? with : g_.choice({with, after}));
    }
    return g_.named(at, g_.sequence({g_.literal("{"), json_.space(), first}));
  }

  const OrderedJson& root_;
  const std::string& what_;
  GrammarSource& g_;
  JsonGrammar& json_;
  std::map<std::string, GrammarSource::Rule> references_;
  std::vector<std::pair<std::string, GrammarSource::Rule>> pending_;
  int64_t work_ = 0;
};

std::shared_ptr<const Grammar> grammar_of(Part (JsonGrammar::*part)(), const char* what) {
  GrammarSource source;
  JsonGrammar json(source);
  const GrammarSource::Rule root = source.declare("root");
  source.define(root, (json.*part)());
  return compile_grammar(source, root, what);
}

}  // namespace

std::shared_ptr<const Grammar> json_schema_grammar(std::string_view schema, const std::string& what) {
  if (schema.size() > kMaxText) throw error(Code::kUnsupported, "{}: the schema is larger than 1 MiB", what);
  GrammarSource source;
  JsonGrammar json(source);
  const GrammarSource::Rule root = source.declare("root");
  source.define(root, json_schema_part(json, parse_ordered_json(schema, what), what));
  return compile_grammar(source, root, what);
}

Part json_schema_part(JsonGrammar& json, const OrderedJson& schema, const std::string& what) {
  return SchemaReader(json, schema, what).read();
}

std::shared_ptr<const Grammar> json_value_grammar() { return grammar_of(&JsonGrammar::value, "any JSON value"); }

std::shared_ptr<const Grammar> json_object_grammar() { return grammar_of(&JsonGrammar::object, "any JSON object"); }

}  // namespace espalier
