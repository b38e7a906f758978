// The values of a template: Python's, as far as templates can reach them. A Value is small and shares its text, items
// or pairs; all of these are constant once made, so sharing shows nowhere. What can change (a namespace, a loop, a
// cycler) cannot be destroyed by a template: the Runtime keeps it to the end of the rendering, which is why no chain of
// values, however long, is taken down by deep recursion. The rest is nested at most kMaxValueDepth deep.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace espalier::jinja {

class Runtime;

constexpr int kMaxValueDepth = 100;

enum class Kind : uint8_t { kUndefined, kNone, kBool, kInt, kFloat, kString, kSequence, kDict, kNamespace, kCallable };

/// Python's types that are sequences of items here. Views are what items(), keys() and values() give; an iterator is
/// what filters like map give: always true, without a length, and empty after it has been walked once.
enum class SequenceType : uint8_t { kList, kTuple, kRange, kItemsView, kKeysView, kValuesView, kIterator };

/// What a Value may share.
struct Object {
  explicit Object(int object_depth = 0) : depth(object_depth) {}
  virtual ~Object();
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  /// Lets go of all values, so that cycles end. Only for what the Runtime keeps.
  virtual void clear() {}

  int depth;                   ///< of nested containers
  Runtime* runtime = nullptr;  ///< whose memory it counts to; null: the template's own constants
  size_t bytes = 0;            ///< that it counts
};

struct Text;
struct Sequence;
struct Dict;
struct Namespace;
struct Callable;

class Value {
 public:
  Value() = default;  ///< undefined
  static Value none() { return Value(Kind::kNone); }
  static Value boolean(bool b) { Value v(Kind::kBool); v.int_ = b; return v; }
  static Value integer(int64_t i) { Value v(Kind::kInt); v.int_ = i; return v; }
  static Value number(double d) { Value v(Kind::kFloat); v.float_ = d; return v; }
  static Value object(Kind kind, std::shared_ptr<Object> object) {
    Value v(kind);
    v.object_ = std::move(object);
    return v;
  }

  Kind kind() const { return kind_; }
  bool is_undefined() const { return kind_ == Kind::kUndefined; }
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_bool() const { return kind_ == Kind::kBool; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_dict() const { return kind_ == Kind::kDict; }
  bool is_sequence() const { return kind_ == Kind::kSequence; }
  bool is_sequence(SequenceType type) const;
  /// As isinstance(x, int): a bool is an integer.
  bool is_integer() const { return kind_ == Kind::kInt || kind_ == Kind::kBool; }
  bool is_number() const { return is_integer() || kind_ == Kind::kFloat; }

  // Each only for a value of that kind.
  int64_t as_int() const { return int_; }
  double as_double() const { return kind_ == Kind::kFloat ? float_ : double(int_); }
  const Text& text() const;
  const std::string& string() const;
  Sequence& sequence() const;
  const Dict& dict() const;
  Namespace& space() const;
  Callable& callable() const;
  /// Why an undefined value is so: "'x' is undefined". Empty where nobody said.
  const Text* reason() const;

  const std::shared_ptr<Object>& shared() const { return object_; }
  int depth() const { return object_ ? object_->depth : 0; }

 private:
  explicit Value(Kind kind) : kind_(kind) {}
  Kind kind_ = Kind::kUndefined;
  union {
    int64_t int_ = 0;
    double float_;
  };
  std::shared_ptr<Object> object_;
};

using Values = std::vector<Value>;
using Pair = std::pair<Value, Value>;

/// Well-formed UTF-8, of which Python sees the code points.
struct Text : Object {
  Text(std::string text, bool is_safe);
  const std::string value;
  const bool safe;       ///< what the filter `safe` marks (markupsafe's Markup): + escapes what is added to it
  const int64_t length;  ///< in code points
  bool ascii() const { return length == int64_t(value.size()); }
};

struct Sequence : Object {
  Sequence(SequenceType t, Values v);
  const SequenceType type;
  const Values items;
  bool walked = false;  ///< an iterator that gave its items away
};

/// Keeps the order of insertion. A key stands once.
struct Dict : Object {
  explicit Dict(std::vector<Pair> p);
  /// Null where the key is not there. The key may be any value.
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  const std::vector<Pair> pairs;

 private:
  std::unordered_map<std::string_view, size_t> index_;  // of text keys, where there are many
};

struct Namespace : Object {
  std::vector<std::pair<std::string, Value>> attributes;
  const Value* find(std::string_view name) const;
  void clear() override { attributes.clear(); }
};

/// Arguments of a call.
struct Arguments {
  Values positional;
  std::vector<std::pair<std::string, Value>> named;
};

/// What can be called: macros, methods, global functions, loops, cyclers, joiners. Some have attributes.
struct Callable : Object {
  using Object::Object;
  virtual Value call(Runtime& rt, const Arguments& arguments) = 0;
  /// Null where there is none.
  virtual std::unique_ptr<Value> attribute(Runtime&, std::string_view) { return nullptr; }
  virtual std::string describe() const = 0;  ///< Python's repr, more or less
};

/// Python's name of a value's type, for messages: "str", "dict", "NoneType".
std::string type_name(const Value& value);

}  // namespace espalier::jinja
