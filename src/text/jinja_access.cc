// a.name, a[key], a[start:stop:step]. A dot looks for Python's own attributes first, then for a key; brackets the other
// way round. Nothing found is undefined, not an error, unless the object itself is undefined.
#include <algorithm>

#include "text/jinja_runtime.h"
#include "text/jinja_string.h"

namespace espalier::jinja {
namespace {

std::optional<Value> own_attribute(Runtime& rt, const Value& object, std::string_view name) {
  if (object.kind() == Kind::kNamespace) {
    const Value* found = object.space().find(name);
    return found ? std::optional<Value>(*found) : std::nullopt;
  }
  if (object.kind() == Kind::kCallable) {
    const auto found = object.callable().attribute(rt, name);
    return found ? std::optional<Value>(*found) : std::nullopt;
  }
  // What groupby gives are pairs with names.
  if (object.is_sequence(SequenceType::kTuple) && object.sequence().items.size() == 2) {
    if (name == "grouper") return object.sequence().items[0];
    if (name == "list") return object.sequence().items[1];
  }
  return find_method(rt, object, name);
}

std::optional<Value> at(Runtime& rt, const Value& object, int64_t index) {
  const int64_t count = length(rt, object);
  if (index < 0) index += count;
  if (index < 0 || index >= count) return std::nullopt;
  if (object.is_sequence()) return object.sequence().items[size_t(index)];
  const Text& text = object.text();
  if (text.ascii()) return rt.text(text.value.substr(size_t(index), 1), text.safe);
  rt.spend_text(text.value.size());
  return rt.text(slice_text(text.value, index, index + 1, 1), text.safe);
}

bool has_places(const Value& value) {
  return value.is_string() || value.is_sequence(SequenceType::kList) || value.is_sequence(SequenceType::kTuple) ||
         value.is_sequence(SequenceType::kRange);
}

std::optional<Value> own_item(Runtime& rt, const Value& object, const Value& key) {
  if (object.is_dict()) {
    rt.step(key.is_string() ? 1 : int64_t(object.dict().pairs.size()));
    const Value* found = object.dict().find(key);
    return found ? std::optional<Value>(*found) : std::nullopt;
  }
  if (has_places(object) && key.is_integer()) return at(rt, object, key.as_int());
  return std::nullopt;
}

Value missing(Runtime& rt, const Value& object, const Value& key) {
  const std::string type = type_name(object);
  if (!key.is_string()) return rt.undefined(fmt::format("{} object has no element {}", type, to_text(rt, key)));
  return rt.undefined(fmt::format("'{} object' has no attribute {}", type, repr_text(key.string())));
}

/// Python's slice.indices(): clamps to what is there.
void clamp_slice(int64_t count, int64_t step, std::optional<int64_t>& start, std::optional<int64_t>& stop) {
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? count : count - 1;
  const auto clamp = [&](int64_t i) { return std::clamp(i < 0 ? i + count : i, low, high); };
  start = start ? clamp(*start) : (step > 0 ? low : high);
  stop = stop ? clamp(*stop) : (step > 0 ? high : low);
}

}  // namespace

Value get_attribute(Runtime& rt, const Value& object, const std::string& name) {
  if (object.is_undefined()) rt.fail_undefined(object);
  if (auto found = own_attribute(rt, object, name)) return *found;
  if (object.is_dict())
    if (const Value* found = object.dict().find(std::string_view(name))) return *found;
  return missing(rt, object, rt.text(name));
}

Value get_item(Runtime& rt, const Value& object, const Value& key) {
  if (object.is_undefined()) rt.fail_undefined(object);
  if (auto found = own_item(rt, object, key)) return *found;
  if (key.is_string())
    if (auto found = own_attribute(rt, object, key.string())) return *found;
  return missing(rt, object, key);
}

Value get_slice(Runtime& rt, const Value& object, const Value& start, const Value& stop, const Value& step) {
  if (object.is_undefined()) rt.fail_undefined(object);
  if (!has_places(object)) return rt.undefined(fmt::format("{} object has no slices", type_name(object)));
  const auto bound = [&](const Value& value) -> std::optional<int64_t> {
    if (value.is_none()) return std::nullopt;
    if (!value.is_integer()) throw rt.fail("slice indices must be integers or none, not {}", type_name(value));
    return value.as_int();
  };
  const int64_t by = bound(step).value_or(1);
  if (by == 0) throw rt.fail("slice step cannot be zero");
  std::optional<int64_t> first = bound(start), last = bound(stop);
  const int64_t count = length(rt, object);
  clamp_slice(count, by, first, last);
  // A step beyond the length takes one item, and could not be added without overflow.
  const int64_t stride = std::clamp(by, -count - 1, count + 1);
  if (object.is_string()) {
    rt.spend_text(object.string().size());
    const Scratch scratch(rt, stride == 1 ? 0 : 24 * object.string().size());
    return rt.text(slice_text(object.string(), *first, *last, stride), object.text().safe);
  }
  Values items;
  for (int64_t i = *first; stride > 0 ? i < *last : i > *last; i += stride)
    items.push_back(object.sequence().items[size_t(i)]);
  return rt.sequence(object.sequence().type, std::move(items));
}

}  // namespace espalier::jinja
