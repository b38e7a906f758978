// Truth, equality, order, membership, length and walking, as Python has them.
#include <algorithm>
#include <utility>

#include "text/jinja_runtime.h"
#include "text/jinja_string.h"

namespace espalier::jinja {
namespace {

bool is_list_or_tuple(const Value& value) {
  return value.is_sequence(SequenceType::kList) || value.is_sequence(SequenceType::kTuple);
}

bool equal_items(Runtime& rt, const Values& a, const Values& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!equal(rt, a[i], b[i])) return false;
  return true;
}

bool equal_dicts(Runtime& rt, const Dict& a, const Dict& b) {
  if (a.pairs.size() != b.pairs.size()) return false;
  for (const Pair& pair : a.pairs) {
    const Value* other = b.find(pair.first);
    if (!other || !equal(rt, pair.second, *other)) return false;
  }
  return true;
}

// Integers are compared as such where both are: doubles would round beyond 2^53.
int compare_numbers(const Value& a, const Value& b) {
  if (a.is_integer() && b.is_integer()) return a.as_int() < b.as_int() ? -1 : a.as_int() > b.as_int();
  return a.as_double() < b.as_double() ? -1 : a.as_double() > b.as_double();
}

bool same_object(const Value& a, const Value& b) { return a.shared() && a.shared() == b.shared(); }

}  // namespace

bool truthy(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone: return false;
    case Kind::kBool:
    case Kind::kInt: return value.as_int() != 0;
    case Kind::kFloat: return value.as_double() != 0;
    case Kind::kString: return !value.string().empty();
    case Kind::kSequence: return value.is_sequence(SequenceType::kIterator) || !value.sequence().items.empty();
    case Kind::kDict: return !value.dict().pairs.empty();
    case Kind::kNamespace:
    case Kind::kCallable: return true;
  }
  return true;
}

bool equal(Runtime& rt, const Value& a, const Value& b) {
  rt.step();
  if (a.is_number() && b.is_number())
    return a.is_integer() && b.is_integer() ? a.as_int() == b.as_int() : a.as_double() == b.as_double();
  if (a.kind() != b.kind()) return false;
  if (same_object(a, b)) return true;
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone: return true;
    case Kind::kString:
      rt.spend_text(std::min(a.string().size(), b.string().size()));
      return a.string() == b.string();
    case Kind::kSequence:
      return a.sequence().type == b.sequence().type && !a.is_sequence(SequenceType::kIterator) &&
             equal_items(rt, a.sequence().items, b.sequence().items);
    case Kind::kDict: return equal_dicts(rt, a.dict(), b.dict());
    default: return false;
  }
}

bool less(Runtime& rt, const Value& a, const Value& b) {
  rt.step();
  if (a.is_undefined()) rt.fail_undefined(a);
  if (b.is_undefined()) rt.fail_undefined(b);
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) < 0;
  // The order of UTF-8 bytes is that of code points.
  if (a.is_string() && b.is_string()) {
    rt.spend_text(std::min(a.string().size(), b.string().size()));
    return a.string() < b.string();
  }
  if (is_list_or_tuple(a) && is_list_or_tuple(b) && a.sequence().type == b.sequence().type) {
    const Values &left = a.sequence().items, &right = b.sequence().items;
    for (size_t i = 0; i < std::min(left.size(), right.size()); ++i)
      if (!equal(rt, left[i], right[i])) return less(rt, left[i], right[i]);
    return left.size() < right.size();
  }
  throw rt.fail("'<' or '>' not supported between instances of '{}' and '{}'", type_name(a), type_name(b));
}

bool contains(Runtime& rt, const Value& container, const Value& item) {
  if (container.is_string()) {
    if (item.is_undefined()) throw rt.fail("'in <string>' requires string as left operand, not Undefined");
    if (!item.is_string())
      throw rt.fail("'in <string>' requires string as left operand, not {}", type_name(item));
    rt.spend_text(container.string().size());
    return container.string().find(item.string()) != std::string::npos;
  }
  if (container.is_dict()) {
    rt.step(item.is_string() ? 1 : int64_t(container.dict().pairs.size()));
    return container.dict().find(item) != nullptr;
  }
  const Value items = walk(rt, container);
  for (const Value& candidate : items.sequence().items)
    if (equal(rt, candidate, item)) return true;
  return false;
}

int64_t length(Runtime& rt, const Value& value) {
  if (value.is_undefined()) return 0;
  if (value.is_string()) return value.text().length;
  if (value.is_dict()) return int64_t(value.dict().pairs.size());
  if (value.is_sequence() && !value.is_sequence(SequenceType::kIterator))
    return int64_t(value.sequence().items.size());
  throw rt.fail("object of type '{}' has no len()", type_name(value));
}

Value walk(Runtime& rt, const Value& value) {
  if (value.is_sequence()) {
    Sequence& sequence = value.sequence();
    rt.step(int64_t(sequence.items.size()));
    if (sequence.type != SequenceType::kIterator) return value;
    if (std::exchange(sequence.walked, true)) return rt.tuple({});
    return value;
  }
  Values items;
  if (value.is_dict()) {
    for (const Pair& pair : value.dict().pairs) items.push_back(pair.first);
  } else if (value.is_string()) {
    const std::string& text = value.string();
    rt.step(value.text().length);
    for (size_t at = 0; at < text.size();) {
      const size_t size = byte_of(std::string_view(text).substr(at), 1);
      items.push_back(rt.text(text.substr(at, size)));
      at += size;
    }
  } else if (!value.is_undefined()) {
    throw rt.fail("'{}' object is not iterable", type_name(value));
  }
  return rt.tuple(std::move(items));
}

}  // namespace espalier::jinja
