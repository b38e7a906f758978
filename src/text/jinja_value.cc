#include "text/jinja_value.h"

#include <algorithm>

#include "base/check.h"
#include "text/jinja_runtime.h"

namespace espalier::jinja {
namespace {

constexpr size_t kIndexedPairs = 8;  // fewer are searched one by one

int64_t code_points(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (uint8_t(c) & 0xC0) != 0x80; });
}

int depth_over(const Values& items) {
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.depth());
  return depth + 1;
}

int depth_over(const std::vector<Pair>& pairs) {
  int depth = 0;
  for (const Pair& pair : pairs) depth = std::max({depth, pair.first.depth(), pair.second.depth()});
  return depth + 1;
}

// A key that is no text: numbers (1, 1.0 and True are one key) and none; a tuple is searched by identity of its items'
// text, which no template was seen to need, so it never matches.
bool same_key(const Value& a, const Value& b) {
  if (a.is_string() || b.is_string()) return a.is_string() && b.is_string() && a.string() == b.string();
  if (a.is_number() && b.is_number()) return a.as_double() == b.as_double();
  return a.is_none() && b.is_none();
}

}  // namespace

Object::~Object() {
  if (runtime) runtime->release(bytes);
}

bool Value::is_sequence(SequenceType type) const { return is_sequence() && sequence().type == type; }
const Text& Value::text() const { return static_cast<const Text&>(*object_); }
const std::string& Value::string() const { return text().value; }
Sequence& Value::sequence() const { return static_cast<Sequence&>(*object_); }
const Dict& Value::dict() const { return static_cast<const Dict&>(*object_); }
Namespace& Value::space() const { return static_cast<Namespace&>(*object_); }
Callable& Value::callable() const { return static_cast<Callable&>(*object_); }
const Text* Value::reason() const { return static_cast<const Text*>(object_.get()); }

Text::Text(std::string text, bool is_safe) : value(std::move(text)), safe(is_safe), length(code_points(value)) {}

Sequence::Sequence(SequenceType t, Values v) : Object(depth_over(v)), type(t), items(std::move(v)) {}

Dict::Dict(std::vector<Pair> p) : Object(depth_over(p)), pairs(std::move(p)) {
  if (pairs.size() <= kIndexedPairs) return;
  for (size_t i = 0; i < pairs.size(); ++i)
    if (pairs[i].first.is_string()) index_.emplace(pairs[i].first.string(), i);
}

const Value* Dict::find(std::string_view key) const {
  if (!index_.empty()) {
    const auto found = index_.find(key);
    return found == index_.end() ? nullptr : &pairs[found->second].second;
  }
  for (const Pair& pair : pairs)
    if (pair.first.is_string() && pair.first.string() == key) return &pair.second;
  return nullptr;
}

const Value* Dict::find(const Value& key) const {
  if (key.is_string()) return find(std::string_view(key.string()));
  for (const Pair& pair : pairs)
    if (same_key(pair.first, key)) return &pair.second;
  return nullptr;
}

const Value* Namespace::find(std::string_view name) const {
  for (const auto& [key, value] : attributes)
    if (key == name) return &value;
  return nullptr;
}

std::string type_name(const Value& value) {
  constexpr const char* kSequences[] = {"list",      "tuple",       "range",    "dict_items",
                                        "dict_keys", "dict_values", "generator"};
  switch (value.kind()) {
    case Kind::kUndefined: return "Undefined";
    case Kind::kNone: return "NoneType";
    case Kind::kBool: return "bool";
    case Kind::kInt: return "int";
    case Kind::kFloat: return "float";
    case Kind::kString: return "str";
    case Kind::kSequence: return kSequences[int(value.sequence().type)];
    case Kind::kDict: return "dict";
    case Kind::kNamespace: return "Namespace";
    case Kind::kCallable: return "function";
  }
  return "object";
}

}  // namespace espalier::jinja
