// The methods of str, list, tuple and dict that change nothing. Those that would (append, pop, update, ...) are what
// transformers' sandbox refuses, and so do we.
#include <algorithm>

#include "text/jinja_runtime.h"
#include "text/jinja_string.h"

namespace espalier::jinja {
namespace {

using Method = Value (*)(Runtime& rt, const Value& self, const Arguments& arguments);

struct Row {
  const char* name;
  Method method;
};

const std::string* optional_text(Runtime& rt, const char* function, const Value& value) {
  if (value.is_undefined() || value.is_none()) return nullptr;
  if (!value.is_string()) throw rt.fail("{}() wants a string or none, not a {}", function, type_name(value));
  return &value.string();
}

const std::string& text_argument(Runtime& rt, const char* function, const Value& value) {
  if (!value.is_string()) throw rt.fail("{}() wants a string, not a {}", function, type_name(value));
  return value.string();
}

Value text_like(Runtime& rt, const Value& self, std::string text) { return rt.text(std::move(text), self.text().safe); }

template <bool kLeft, bool kRight>
Value strip_method(Runtime& rt, const Value& self, const Arguments& arguments) {
  const Values args = bind(rt, "strip", arguments, {"chars"});
  const std::string* chars = optional_text(rt, "strip", args[0]);
  if (chars) rt.step(int64_t(chars->size()));
  return text_like(rt, self, std::string(strip(self.string(), chars, kLeft, kRight)));
}

template <std::string (*kFunction)(std::string_view)>
Value case_method(Runtime& rt, const Value& self, const Arguments& arguments) {
  bind(rt, "upper", arguments, {});
  return text_like(rt, self, kFunction(self.string()));
}

Value texts(Runtime& rt, const Value& self, const std::vector<std::string_view>& parts) {
  Values items;
  for (const std::string_view part : parts) items.push_back(text_like(rt, self, std::string(part)));
  return rt.list(std::move(items));
}

template <std::vector<std::string_view> (*kFunction)(std::string_view, const std::string*, int64_t)>
Value split_method(Runtime& rt, const Value& self, const Arguments& arguments) {
  const Values args = bind(rt, "split", arguments, {"sep", "maxsplit"});
  const std::string* separator = optional_text(rt, "split", args[0]);
  if (separator && separator->empty()) throw rt.fail("split(): empty separator");
  return texts(rt, self, kFunction(self.string(), separator, int_argument(rt, "split", args[1], -1)));
}

Value split_lines_method(Runtime& rt, const Value& self, const Arguments& arguments) {
  const Values args = bind(rt, "splitlines", arguments, {"keepends"});
  return texts(rt, self, split_lines(self.string(), truthy(args[0])));
}

template <bool kFromRight>
Value partition_method(Runtime& rt, const Value& self, const Arguments& arguments) {
  const Values args = bind(rt, "partition", arguments, {"sep"});
  const std::string &text = self.string(), &separator = text_argument(rt, "partition", args[0]);
  if (separator.empty()) throw rt.fail("partition(): empty separator");
  const size_t at = kFromRight ? text.rfind(separator) : text.find(separator);
  if (at == std::string::npos)
    return kFromRight ? rt.tuple({rt.text(""), rt.text(""), self}) : rt.tuple({self, rt.text(""), rt.text("")});
  return rt.tuple({rt.text(text.substr(0, at)), rt.text(separator), rt.text(text.substr(at + separator.size()))});
}

// The part of the text from code point `start` to `stop`, and where it begins.
std::string_view part_of(Runtime& rt, const Value& self, const Value& start, const Value& stop, int64_t& begin) {
  const int64_t count = self.text().length;
  const auto place = [&](const Value& value, int64_t fallback) {
    int64_t i = value.is_none() ? fallback : int_argument(rt, "find", value, fallback);
    if (i < 0) i += count;
    return std::clamp<int64_t>(i, 0, count);
  };
  begin = place(start, 0);
  const int64_t end = std::max(begin, place(stop, count));
  const std::string_view text = self.string();
  const size_t from = byte_of(text, begin);
  return text.substr(from, byte_of(text.substr(from), end - begin));
}

template <bool kAtEnd>
Value starts_method(Runtime& rt, const Value& self, const Arguments& arguments) {
  const Values args = bind(rt, kAtEnd ? "endswith" : "startswith", arguments, {"prefix", "start", "end"});
  int64_t begin = 0;
  const std::string_view text = part_of(rt, self, args[1], args[2], begin);
  const auto matches = [&](const Value& affix) {
    const std::string& part = text_argument(rt, "startswith", affix);
    return kAtEnd ? text.ends_with(part) : text.starts_with(part);
  };
  if (!args[0].is_sequence(SequenceType::kTuple)) return Value::boolean(matches(args[0]));
  const Values& items = args[0].sequence().items;
  return Value::boolean(std::any_of(items.begin(), items.end(), matches));
}

int64_t find_in(Runtime& rt, const Value& self, const Arguments& arguments, bool from_right) {
  const Values args = bind(rt, "find", arguments, {"sub", "start", "end"});
  int64_t begin = 0;
  const std::string_view text = part_of(rt, self, args[1], args[2], begin);
  const std::string& part = text_argument(rt, "find", args[0]);
  const size_t at = from_right ? text.rfind(part) : text.find(part);
  if (at == std::string_view::npos) return -1;
  return begin + Text(std::string(text.substr(0, at)), false).length;
}

template <bool kFromRight>
Value find_method(Runtime& rt, const Value& self, const Arguments& arguments) {
  return Value::integer(find_in(rt, self, arguments, kFromRight));
}

template <bool kFromRight>
Value index_method(Runtime& rt, const Value& self, const Arguments& arguments) {
  const int64_t at = find_in(rt, self, arguments, kFromRight);
  if (at < 0) throw rt.fail("index(): substring not found");
  return Value::integer(at);
}

Value count_method(Runtime& rt, const Value& self, const Arguments& arguments) {
  const Values args = bind(rt, "count", arguments, {"sub", "start", "end"});
  int64_t begin = 0, count = 0;
  const std::string_view text = part_of(rt, self, args[1], args[2], begin);
  const std::string& part = text_argument(rt, "count", args[0]);
  if (part.empty()) return Value::integer(Text(std::string(text), false).length + 1);
  for (size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + part.size())) ++count;
  return Value::integer(count);
}

Value join_method(Runtime& rt, const Value& self, const Arguments& arguments) {
  const Values args = bind(rt, "join", arguments, {"iterable"});
  if (args[0].is_undefined()) return rt.text("");
  const Value items = walk(rt, args[0]);
  TextBuilder out(rt);
  bool first = true;
  for (const Value& item : items.sequence().items) {
    if (!item.is_string()) throw rt.fail("join(): expected str instance, {} found", type_name(item));
    if (!std::exchange(first, false)) out.add(self.string());
    out.add(item.string());
  }
  return rt.text(out.take());
}

template <bool kLeft>
Value remove_affix_method(Runtime& rt, const Value& self, const Arguments& arguments) {
  const Values args = bind(rt, "removeprefix", arguments, {"prefix"});
  std::string_view text = self.string();
  const std::string& affix = text_argument(rt, "removeprefix", args[0]);
  if (kLeft && text.starts_with(affix)) text.remove_prefix(affix.size());
  if (!kLeft && text.ends_with(affix)) text.remove_suffix(affix.size());
  return text_like(rt, self, std::string(text));
}

// 'l': the text stands left, as ljust; 'r'; 'c'.
template <char kPlace>
Value justify_method(Runtime& rt, const Value& self, const Arguments& arguments) {
  const Values args = bind(rt, "center", arguments, {"width", "fillchar"});
  const std::string fill = args[1].is_undefined() ? " " : text_argument(rt, "center", args[1]);
  const int64_t width = int_argument(rt, "center", args[0], 0), count = self.text().length;
  if (byte_of(fill, 1) != fill.size() || fill.empty()) throw rt.fail("center(): the fill must be one character");
  const int64_t pad = std::max<int64_t>(0, width - count);
  rt.spend_text(size_t(std::min<int64_t>(pad, INT64_MAX / 8)) * fill.size() + self.string().size());
  // Python's centre leans left, or right where both pad and width are odd.
  const int64_t left = kPlace == 'l' ? 0 : kPlace == 'r' ? pad : pad / 2 + (pad & width & 1);
  std::string out;
  for (int64_t i = 0; i < left; ++i) out += fill;
  out += self.string();
  for (int64_t i = left; i < pad; ++i) out += fill;
  return text_like(rt, self, std::move(out));
}

Value zfill_method(Runtime& rt, const Value& self, const Arguments& arguments) {
  const Values args = bind(rt, "zfill", arguments, {"width"});
  std::string text = self.string();
  const int64_t pad = int_argument(rt, "zfill", args[0], 0) - self.text().length;
  if (pad <= 0) return self;
  rt.spend_text(size_t(pad) + text.size());
  text.insert(text.starts_with('-') || text.starts_with('+') ? 1 : 0, size_t(pad), '0');
  return rt.text(std::move(text));
}

Value format_method(Runtime& rt, const Value& self, const Arguments& arguments) {
  return format_braces(rt, self.string(), arguments);
}

Value replace_method(Runtime& rt, const Value& self, const Arguments& arguments) {
  return apply_filter(rt, "replace", self, arguments);
}

constexpr Row kTextMethods[] = {
    {"strip", strip_method<true, true>},
    {"lstrip", strip_method<true, false>},
    {"rstrip", strip_method<false, true>},
    {"upper", case_method<upper>},
    {"lower", case_method<lower>},
    {"title", case_method<title>},
    {"capitalize", case_method<capitalize>},
    {"casefold", case_method<lower>},
    {"swapcase", case_method<swap_case>},
    {"split", split_method<split>},
    {"rsplit", split_method<split_right>},
    {"splitlines", split_lines_method},
    {"partition", partition_method<false>},
    {"rpartition", partition_method<true>},
    {"startswith", starts_method<false>},
    {"endswith", starts_method<true>},
    {"find", find_method<false>},
    {"rfind", find_method<true>},
    {"index", index_method<false>},
    {"rindex", index_method<true>},
    {"count", count_method},
    {"join", join_method},
    {"replace", replace_method},
    {"removeprefix", remove_affix_method<true>},
    {"removesuffix", remove_affix_method<false>},
    {"ljust", justify_method<'l'>},
    {"rjust", justify_method<'r'>},
    {"center", justify_method<'c'>},
    {"zfill", zfill_method},
    {"format", format_method},
};
constexpr const char* kTextQuestions[] = {"isalpha", "isdigit",   "isdecimal", "isnumeric",
                                          "isalnum", "isspace",   "isupper",   "islower"};

Value pairs_view(Runtime& rt, const Value& self, SequenceType type) {
  Values items;
  for (const auto& [key, value] : self.dict().pairs) {
    if (type == SequenceType::kItemsView) items.push_back(rt.tuple({key, value}));
    if (type == SequenceType::kKeysView) items.push_back(key);
    if (type == SequenceType::kValuesView) items.push_back(value);
  }
  return rt.sequence(type, std::move(items));
}

template <SequenceType kType>
Value view_method(Runtime& rt, const Value& self, const Arguments& arguments) {
  bind(rt, "items", arguments, {});
  return pairs_view(rt, self, kType);
}

Value get_method(Runtime& rt, const Value& self, const Arguments& arguments) {
  if (arguments.positional.empty() || arguments.positional.size() > 2 || !arguments.named.empty())
    throw rt.fail("get() takes a key and a default");
  const Value& key = arguments.positional[0];
  rt.step(key.is_string() ? 1 : int64_t(self.dict().pairs.size()));
  if (const Value* found = self.dict().find(key)) return *found;
  return arguments.positional.size() == 2 ? arguments.positional[1] : Value::none();
}

Value copy_method(Runtime&, const Value& self, const Arguments&) { return self; }

constexpr Row kDictMethods[] = {
    {"items", view_method<SequenceType::kItemsView>},
    {"keys", view_method<SequenceType::kKeysView>},
    {"values", view_method<SequenceType::kValuesView>},
    {"get", get_method},
    {"copy", copy_method},
};
constexpr const char* kDictChanges[] = {"clear", "pop", "popitem", "setdefault", "update"};

Value item_index_method(Runtime& rt, const Value& self, const Arguments& arguments) {
  const Values args = bind(rt, "index", arguments, {"value"});
  const Values& items = self.sequence().items;
  for (size_t i = 0; i < items.size(); ++i)
    if (equal(rt, items[i], args[0])) return Value::integer(int64_t(i));
  throw rt.fail("index(): the value is not in the list");
}

Value item_count_method(Runtime& rt, const Value& self, const Arguments& arguments) {
  const Values args = bind(rt, "count", arguments, {"value"});
  int64_t count = 0;
  for (const Value& item : self.sequence().items) count += equal(rt, item, args[0]);
  return Value::integer(count);
}

constexpr Row kListMethods[] = {
    {"index", item_index_method},
    {"count", item_count_method},
    {"copy", copy_method},
};
constexpr const char* kListChanges[] = {"append", "clear",  "pop",    "reverse",
                                        "insert", "sort",   "extend", "remove"};

Value bound(Runtime& rt, const Row& row, const Value& self) {
  const Method method = row.method;
  const auto body = [method, self](Runtime& r, const Arguments& arguments) {
    if (!self.is_string()) return method(r, self, arguments);
    // What a method may use for the moment: three words a character.
    r.spend_text(self.string().size());
    const Scratch scratch(r, 24 * self.string().size());
    return method(r, self, arguments);
  };
  return rt.function(row.name, body, self);
}

template <size_t kCount>
const Row* find_row(const Row (&rows)[kCount], std::string_view name) {
  for (const Row& row : rows)
    if (name == row.name) return &row;
  return nullptr;
}

template <size_t kCount>
bool is_one_of(const char* const (&names)[kCount], std::string_view name) {
  return std::any_of(std::begin(names), std::end(names), [&](const char* n) { return name == n; });
}

}  // namespace

std::optional<Value> find_method(Runtime& rt, const Value& self, std::string_view name) {
  const Row* row = nullptr;
  bool changes = false;
  if (self.is_string()) {
    row = find_row(kTextMethods, name);
    if (is_one_of(kTextQuestions, name)) {
      const auto body = [self, what = std::string(name)](Runtime& r, const Arguments&) {
        r.spend_text(self.string().size());
        const Scratch scratch(r, 24 * self.string().size());
        return Value::boolean(is_all(self.string(), what));
      };
      return rt.function(std::string(name), body, self);
    }
  } else if (self.is_dict()) {
    row = find_row(kDictMethods, name);
    changes = is_one_of(kDictChanges, name);
  } else if (self.is_sequence(SequenceType::kList) || self.is_sequence(SequenceType::kTuple)) {
    row = find_row(kListMethods, name);
    changes = self.is_sequence(SequenceType::kList) && is_one_of(kListChanges, name);
  }
  if (row) return bound(rt, *row, self);
  if (changes)
    return rt.undefined(fmt::format("access to attribute '{}' of '{}' object is unsafe: templates may not change "
                                    "lists and dicts (transformers refuses it too)", name, type_name(self)));
  return std::nullopt;
}

}  // namespace espalier::jinja
