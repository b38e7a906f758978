// The Runtime: one rendering's budget and its factory of values; and Python's operations on values, which all spend
// from it. Whatever a template makes comes from here, so whatever it makes is counted.
#pragma once
#include <ctime>
#include <functional>
#include <optional>

#include "base/error.h"
#include "text/jinja.h"
#include "text/jinja_value.h"

namespace espalier::jinja {

class Runtime {
 public:
  /// `what` names the template. Borrowed, like the options.
  Runtime(const std::string& what, const JinjaOptions& options);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  /// The error to throw, which begins with the template's name and the current line.
  template <class... Args>
  Error fail(fmt::format_string<Args...> format, Args&&... args) const {
    return failure(Code::kBadData, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  Error unsupported(fmt::format_string<Args...> format, Args&&... args) const {
    return failure(Code::kUnsupported, fmt::format(format, std::forward<Args>(args)...));
  }
  Error failure(Code code, const std::string& message) const;
  /// Throws what Python does when an undefined value is used.
  [[noreturn]] void fail_undefined(const Value& value) const;

  /// Throws where the steps are used up.
  void step(int64_t count = 1) {
    if ((steps_left_ -= count) < 0) fail_steps();
  }
  /// For a string of that many bytes; throws also where none may have so many. Called before it is made.
  void spend_text(size_t bytes);
  /// Counts live memory; throws where there is too much.
  void allocate(size_t bytes);
  void release(size_t bytes) { memory_left_ += int64_t(bytes); }
  /// Keeps an object to the end of the rendering.
  void keep(std::shared_ptr<Object> object) { kept_.push_back(std::move(object)); }

  Value text(std::string value, bool safe = false);
  Value sequence(SequenceType type, Values items);
  Value list(Values items) { return sequence(SequenceType::kList, std::move(items)); }
  Value tuple(Values items) { return sequence(SequenceType::kTuple, std::move(items)); }
  /// Later pairs replace the values of earlier ones with an equal key. Throws where a key cannot be one (a list, ...).
  Value dict(std::vector<Pair> pairs);
  Value space(std::vector<std::pair<std::string, Value>> attributes);
  Value undefined(std::string reason);
  /// Takes an object over and counts `bytes` for it beside its own size.
  template <class T>
  std::shared_ptr<T> own(std::shared_ptr<T> object, size_t bytes) {
    adopt(*object, bytes + sizeof(T) + 32);
    return object;
  }
  /// A function as a value.
  Value function(std::string name, std::function<Value(Runtime&, const Arguments&)> body, const Value& self = {});

  const JinjaOptions& options() const { return options_; }
  /// Nested evaluations; see Depth.
  int depth = 0;
  int line = 0;

 private:
  void adopt(Object& object, size_t bytes);
  [[noreturn]] void fail_steps() const;

  const std::string& what_;
  const JinjaOptions& options_;
  int64_t steps_left_, memory_left_;
  std::vector<std::shared_ptr<Object>> kept_;
};

/// One level of evaluation, as long as it lives.
class Depth {
 public:
  explicit Depth(Runtime& rt) : rt_(rt) {
    if (++rt.depth > rt.options().limits.depth) fail();
  }
  ~Depth() { --rt_.depth; }

 private:
  void fail();
  Runtime& rt_;
};

/// Memory that is used for the moment, counted as long as this lives.
class Scratch {
 public:
  Scratch(Runtime& rt, size_t bytes) : rt_(rt), bytes_(bytes) { rt.allocate(bytes); }
  ~Scratch() { rt_.release(bytes_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

 private:
  Runtime& rt_;
  size_t bytes_;
};

/// A string in the making, which is counted as it grows.
class TextBuilder {
 public:
  explicit TextBuilder(Runtime& rt) : rt_(rt) {}
  ~TextBuilder() { rt_.release(counted_); }
  TextBuilder(const TextBuilder&) = delete;
  TextBuilder& operator=(const TextBuilder&) = delete;

  void add(std::string_view text);
  void add(char c) { add(std::string_view(&c, 1)); }
  const std::string& str() const { return text_; }
  std::string take() { return std::move(text_); }

 private:
  Runtime& rt_;
  std::string text_;
  size_t counted_ = 0;
};

// Python's operations. Each throws what Python would, and spends steps for what it visits.

bool truthy(const Value& value);
bool equal(Runtime& rt, const Value& a, const Value& b);
/// a < b, as Python orders numbers, strings, lists and tuples.
bool less(Runtime& rt, const Value& a, const Value& b);
bool contains(Runtime& rt, const Value& container, const Value& item);
/// len(). Throws where there is none.
int64_t length(Runtime& rt, const Value& value);
/// What a `for` sees, as a sequence: its items (an iterator is then empty), the keys of a dict, the characters of a
/// string. Throws for what cannot be walked.
Value walk(Runtime& rt, const Value& value);

/// str(): empty for undefined.
std::string to_text(Runtime& rt, const Value& value);
void write_text(TextBuilder& out, Runtime& rt, const Value& value);
void write_repr(TextBuilder& out, Runtime& rt, const Value& value);
/// The repr of a string and of a number.
std::string repr_text(std::string_view text);
std::string repr_number(double number);

/// Operators by their spelling: + - * / // % **.
Value arithmetic(Runtime& rt, std::string_view op, const Value& a, const Value& b);
Value negate(Runtime& rt, const Value& value);

/// a.name, and a[key]: undefined where there is none.
Value get_attribute(Runtime& rt, const Value& object, const std::string& name);
Value get_item(Runtime& rt, const Value& object, const Value& key);
/// a[start:stop:step]; none for what is left out.
Value get_slice(Runtime& rt, const Value& object, const Value& start, const Value& stop, const Value& step);
/// A method of Python's own types, bound to the object; nothing where there is none.
std::optional<Value> find_method(Runtime& rt, const Value& object, std::string_view name);
/// "...".format(...) and "..." % values.
Value format_braces(Runtime& rt, const std::string& format, const Arguments& arguments);
Value format_percent(Runtime& rt, const std::string& format, const Value& values);

Value call(Runtime& rt, const Value& callee, const Arguments& arguments);
Value apply_filter(Runtime& rt, const std::string& name, const Value& value, const Arguments& arguments);
bool apply_test(Runtime& rt, const std::string& name, const Value& value, const Arguments& arguments);
bool filter_exists(std::string_view name);
bool test_exists(std::string_view name);
/// range, namespace, dict, raise_exception, ...: nothing where there is no such global.
std::optional<Value> find_global(Runtime& rt, std::string_view name);

/// A JSON value as Python's json.loads gives it.
Value from_json(Runtime& rt, const OrderedJson& json);

/// The arguments of a call by their names in order; undefined where one is not given. Throws for one too many, an
/// unknown or a doubled one.
Values bind(Runtime& rt, const char* function, const Arguments& arguments, std::initializer_list<const char*> names);
/// An argument that must be an integer, with a default where it is not given.
int64_t int_argument(Runtime& rt, const char* function, const Value& value, int64_t fallback);

}  // namespace espalier::jinja
