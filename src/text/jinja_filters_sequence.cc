// Filters of lists and dicts. What is lazy in Python (map, select, ...) is computed at once here and handed on as an
// iterator, which is true, has no length, and can be walked once, as Python's generator.
#include <algorithm>

#include "text/jinja_filters.h"
#include "text/jinja_string.h"

namespace espalier::jinja {
namespace {

Value iterator(Runtime& rt, Values items) { return rt.sequence(SequenceType::kIterator, std::move(items)); }

Value ignore_case(Runtime& rt, const Value& value) {
  if (!value.is_string()) return value;
  const Scratch scratch(rt, 24 * value.string().size());
  return rt.text(lower(value.string()));
}

Value length_filter(Runtime& rt, const Value& value, const Arguments&) { return Value::integer(length(rt, value)); }

Value default_filter(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Values args = bind(rt, "default", arguments, {"default_value", "boolean"});
  if (!value.is_undefined() && !(truthy(args[1]) && !truthy(value))) return value;
  const bool given = !arguments.positional.empty() ||
                     std::any_of(arguments.named.begin(), arguments.named.end(),
                                 [](const auto& named) { return named.first == "default_value"; });
  return given ? args[0] : rt.text("");
}

Value first_filter(Runtime& rt, const Value& value, const Arguments&) {
  const Value items = walk(rt, value);
  if (items.sequence().items.empty()) return rt.undefined("No first item, sequence was empty.");
  return items.sequence().items.front();
}

Value last_filter(Runtime& rt, const Value& value, const Arguments&) {
  if (value.is_sequence(SequenceType::kIterator)) throw rt.fail("last: 'generator' object is not reversible");
  if (value.is_undefined()) rt.fail_undefined(value);
  const Value items = walk(rt, value);
  if (items.sequence().items.empty()) return rt.undefined("No last item, sequence was empty.");
  return items.sequence().items.back();
}

Value list_filter(Runtime& rt, const Value& value, const Arguments&) {
  const Value items = walk(rt, value);
  return items.is_sequence(SequenceType::kList) ? items : rt.list(items.sequence().items);
}

Value join_filter(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Values args = bind(rt, "join", arguments, {"d", "attribute"});
  const std::string separator = to_text(rt, args[0]);
  const Value items = walk(rt, value);
  TextBuilder out(rt);
  bool first = true;
  for (const Value& item : items.sequence().items) {
    if (!std::exchange(first, false)) out.add(separator);
    write_text(out, rt, attribute_path(rt, item, args[1]));
  }
  return rt.text(out.take());
}

Value reverse_filter(Runtime& rt, const Value& value, const Arguments&) {
  if (value.is_string()) {
    const Scratch scratch(rt, 24 * value.string().size());
    rt.spend_text(value.string().size());
    return rt.text(slice_text(value.string(), value.text().length - 1, -1, -1));
  }
  if (value.is_undefined()) rt.fail_undefined(value);
  const Value items = walk(rt, value);
  Values reversed(items.sequence().items.rbegin(), items.sequence().items.rend());
  return value.is_sequence(SequenceType::kIterator) ? rt.list(std::move(reversed)) : iterator(rt, std::move(reversed));
}

Value items_filter(Runtime& rt, const Value& value, const Arguments&) {
  Values items;
  if (!value.is_undefined() && !value.is_dict()) throw rt.fail("items: can only get item pairs from a mapping");
  if (value.is_dict())
    for (const auto& [key, item] : value.dict().pairs) items.push_back(rt.tuple({key, item}));
  return iterator(rt, std::move(items));
}

/// Items with the keys they are sorted by.
struct Keyed {
  Value key, item;
};

void sort_keyed(Runtime& rt, std::vector<Keyed>& keyed, bool reverse) {
  std::stable_sort(keyed.begin(), keyed.end(), [&](const Keyed& a, const Keyed& b) {
    return reverse ? less(rt, b.key, a.key) : less(rt, a.key, b.key);
  });
}

Values items_of(std::vector<Keyed>& keyed) {
  Values items;
  for (Keyed& k : keyed) items.push_back(std::move(k.item));
  return items;
}

// "age,name" sorts by both: the key is the list of what the paths find.
Value sort_key(Runtime& rt, const Value& item, const Value& attribute, bool case_sensitive) {
  Values keys;
  const auto add = [&](const Value& path) {
    const Value key = attribute_path(rt, item, path);
    keys.push_back(case_sensitive ? key : ignore_case(rt, key));
  };
  if (attribute.is_string()) {
    const std::string comma = ",";
    for (const std::string_view path : split(attribute.string(), &comma, -1)) add(rt.text(std::string(path)));
  } else {
    add(attribute);
  }
  return keys.size() == 1 ? keys[0] : rt.list(std::move(keys));
}

Value sort_filter(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Values args = bind(rt, "sort", arguments, {"reverse", "case_sensitive", "attribute"});
  const Value items = walk(rt, value);
  const Scratch scratch(rt, items.sequence().items.size() * sizeof(Keyed));
  std::vector<Keyed> keyed;
  for (const Value& item : items.sequence().items)
    keyed.push_back({sort_key(rt, item, args[2], truthy(args[1])), item});
  sort_keyed(rt, keyed, truthy(args[0]));
  return rt.list(items_of(keyed));
}

Value dict_sort_filter(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Values args = bind(rt, "dictsort", arguments, {"case_sensitive", "by", "reverse"});
  if (!value.is_dict()) throw rt.fail("dictsort: wants a dict, not a {}", type_name(value));
  const std::string by = args[1].is_undefined() ? "key" : to_text(rt, args[1]);
  if (by != "key" && by != "value") throw rt.fail("dictsort: by is '{}'; expected key or value", by);
  std::vector<Keyed> keyed;
  for (const auto& [key, item] : value.dict().pairs) {
    const Value& sorted_by = by == "key" ? key : item;
    keyed.push_back({truthy(args[0]) ? sorted_by : ignore_case(rt, sorted_by), rt.tuple({key, item})});
  }
  sort_keyed(rt, keyed, truthy(args[2]));
  return rt.list(items_of(keyed));
}

Value unique_filter(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Values args = bind(rt, "unique", arguments, {"case_sensitive", "attribute"});
  const Value items = walk(rt, value);
  Values keys, unique;
  for (const Value& item : items.sequence().items) {
    const Value found = attribute_path(rt, item, args[1]);
    const Value key = truthy(args[0]) ? found : ignore_case(rt, found);
    if (std::any_of(keys.begin(), keys.end(), [&](const Value& k) { return equal(rt, k, key); })) continue;
    keys.push_back(key);
    unique.push_back(item);
  }
  return iterator(rt, std::move(unique));
}

template <bool kMax>
Value extreme_filter(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Values args = bind(rt, "min", arguments, {"case_sensitive", "attribute"});
  const Value items = walk(rt, value);
  if (items.sequence().items.empty()) return rt.undefined("No aggregated item, sequence was empty.");
  Value best, best_key;
  bool first = true;
  for (const Value& item : items.sequence().items) {
    const Value found = attribute_path(rt, item, args[1]);
    const Value key = truthy(args[0]) ? found : ignore_case(rt, found);
    if (!std::exchange(first, false) && !(kMax ? less(rt, best_key, key) : less(rt, key, best_key))) continue;
    best = item;
    best_key = key;
  }
  return best;
}

Value sum_filter(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Values args = bind(rt, "sum", arguments, {"attribute", "start"});
  Value sum = args[1].is_undefined() ? Value::integer(0) : args[1];
  if (sum.is_string()) throw rt.fail("sum: can't sum strings [use join instead]");
  const Value items = walk(rt, value);
  for (const Value& item : items.sequence().items)
    sum = arithmetic(rt, "+", sum, attribute_path(rt, item, args[0]));
  return sum;
}

Value map_filter(Runtime& rt, const Value& value, const Arguments& arguments) {
  Values mapped;
  if (!truthy(value)) return iterator(rt, {});  // none, too
  const Value items = walk(rt, value);
  if (arguments.positional.empty()) {
    const Values args = bind(rt, "map", arguments, {"attribute", "default"});
    if (args[0].is_undefined()) throw rt.fail("map requires a filter argument");
    for (const Value& item : items.sequence().items) mapped.push_back(attribute_path(rt, item, args[0], args[1]));
    return iterator(rt, std::move(mapped));
  }
  const std::string name = to_text(rt, arguments.positional[0]);
  Arguments rest = arguments;
  rest.positional.erase(rest.positional.begin());
  for (const Value& item : items.sequence().items) mapped.push_back(apply_filter(rt, name, item, rest));
  return iterator(rt, std::move(mapped));
}

// select, reject, selectattr, rejectattr: the items that pass a test, which by default is that they are true.
template <bool kKeep, bool kByAttribute>
Value select_filter(Runtime& rt, const Value& value, const Arguments& arguments) {
  if (!truthy(value)) return iterator(rt, {});  // none, too
  Arguments rest = arguments;
  Value path;
  if (kByAttribute) {
    if (rest.positional.empty()) throw rt.fail("selectattr: the name of the attribute is missing");
    path = rest.positional[0];
    rest.positional.erase(rest.positional.begin());
  }
  std::optional<std::string> test;
  if (!rest.positional.empty()) {
    test = to_text(rt, rest.positional[0]);
    rest.positional.erase(rest.positional.begin());
  }
  Values kept;
  const Value items = walk(rt, value);
  for (const Value& item : items.sequence().items) {
    const Value seen = kByAttribute ? attribute_path(rt, item, path) : item;
    if ((test ? apply_test(rt, *test, seen, rest) : truthy(seen)) == kKeep) kept.push_back(item);
  }
  return iterator(rt, std::move(kept));
}

Value batch_filter(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Values args = bind(rt, "batch", arguments, {"linecount", "fill_with"});
  const int64_t count = int_argument(rt, "batch", args[0], 0);
  const Value items = walk(rt, value);
  Values rows, row;
  for (const Value& item : items.sequence().items) {
    if (int64_t(row.size()) == count) rows.push_back(rt.list(std::exchange(row, {})));
    row.push_back(item);
  }
  if (!row.empty() && !args[1].is_undefined() && !args[1].is_none())
    for (rt.step(std::max<int64_t>(count, 0)); int64_t(row.size()) < count;) row.push_back(args[1]);
  if (!row.empty()) rows.push_back(rt.list(std::move(row)));
  return iterator(rt, std::move(rows));
}

Value slice_filter(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Values args = bind(rt, "slice", arguments, {"slices", "fill_with"});
  const int64_t slices = int_argument(rt, "slice", args[0], 0);
  if (slices < 1) throw rt.fail("slice: {} slices; expected 1 or more", slices);
  rt.step(slices);
  const Value walked = walk(rt, value);
  const Values& items = walked.sequence().items;
  const int64_t each = int64_t(items.size()) / slices, extra = int64_t(items.size()) % slices;
  Values columns;
  auto at = items.begin();
  for (int64_t i = 0; i < slices; ++i) {
    const auto end = at + each + (i < extra);
    Values column(at, end);
    if (i >= extra && !args[1].is_undefined() && !args[1].is_none()) column.push_back(args[1]);
    columns.push_back(rt.list(std::move(column)));
    at = end;
  }
  return iterator(rt, std::move(columns));
}

Value group_filter(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Values args = bind(rt, "groupby", arguments, {"attribute", "default", "case_sensitive"});
  const Value items = walk(rt, value);
  std::vector<Keyed> keyed;
  for (const Value& item : items.sequence().items) {
    const Value key = attribute_path(rt, item, args[0], args[1]);
    keyed.push_back({truthy(args[2]) ? key : ignore_case(rt, key), item});
  }
  sort_keyed(rt, keyed, false);
  Values groups;
  for (size_t i = 0; i < keyed.size();) {
    Values members;
    const size_t begin = i;
    for (; i < keyed.size() && equal(rt, keyed[i].key, keyed[begin].key); ++i) members.push_back(keyed[i].item);
    if (i == begin) members.push_back(keyed[i++].item);  // a key that is not even equal to itself: NaN
    const Value name = attribute_path(rt, members[0], args[0], args[1]);
    groups.push_back(rt.tuple({name, rt.list(std::move(members))}));
  }
  return rt.list(std::move(groups));
}

Value attr_filter(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Values args = bind(rt, "attr", arguments, {"name"});
  if (value.is_dict() && args[0].is_string()) {  // as foo.bar, without the keys
    const auto found = find_method(rt, value, args[0].string());
    return found ? *found : rt.undefined("'dict object' has no attribute " + repr_text(args[0].string()));
  }
  return get_attribute(rt, value, to_text(rt, args[0]));
}

constexpr FilterRow kRows[] = {
    {"length", length_filter},
    {"count", length_filter},
    {"default", default_filter},
    {"d", default_filter},
    {"first", first_filter},
    {"last", last_filter},
    {"list", list_filter},
    {"join", join_filter},
    {"reverse", reverse_filter},
    {"items", items_filter},
    {"sort", sort_filter},
    {"dictsort", dict_sort_filter},
    {"unique", unique_filter},
    {"min", extreme_filter<false>},
    {"max", extreme_filter<true>},
    {"sum", sum_filter},
    {"map", map_filter},
    {"select", select_filter<true, false>},
    {"reject", select_filter<false, false>},
    {"selectattr", select_filter<true, true>},
    {"rejectattr", select_filter<false, true>},
    {"batch", batch_filter},
    {"slice", slice_filter},
    {"groupby", group_filter},
    {"attr", attr_filter},
};

}  // namespace

std::span<const FilterRow> sequence_filters() { return kRows; }

Value attribute_path(Runtime& rt, const Value& item, const Value& path, const Value& fallback) {
  if (path.is_undefined() || path.is_none()) return item;
  const auto step = [&](const Value& from, const Value& key) {
    const Value found = get_item(rt, from, key);
    return found.is_undefined() && !fallback.is_undefined() && !fallback.is_none() ? fallback : found;
  };
  if (!path.is_string()) return step(item, path);
  const std::string dot = ".";
  Value value = item;
  for (const std::string_view part : split(path.string(), &dot, -1)) {
    const bool number = !part.empty() && part.size() < 18 && part.find_first_not_of("0123456789") == part.npos;
    value = step(value, number ? Value::integer(std::stoll(std::string(part))) : rt.text(std::string(part)));
  }
  return value;
}

}  // namespace espalier::jinja
