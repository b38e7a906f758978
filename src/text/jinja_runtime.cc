#include "text/jinja_runtime.h"

#include <algorithm>

#include "base/human.h"
#include "base/json_value.h"

namespace espalier::jinja {
namespace {

constexpr size_t kBytesPerStep = 64;

class Function : public Callable {
 public:
  Function(std::string name, std::function<Value(Runtime&, const Arguments&)> body, Value self)
      : Callable(self.depth() + 1), name_(std::move(name)), body_(std::move(body)), self_(std::move(self)) {}
  Value call(Runtime& rt, const Arguments& arguments) override { return body_(rt, arguments); }
  std::string describe() const override { return "<function " + name_ + ">"; }

 private:
  std::string name_;
  std::function<Value(Runtime&, const Arguments&)> body_;
  Value self_;  // what a method is bound to, for the depth alone
};

// The last value of a key wins, at the place of the first.
std::vector<Pair> without_doubles(Runtime& rt, const std::vector<Pair>& pairs) {
  std::vector<Pair> unique;
  for (const Pair& pair : pairs) {
    rt.step(int64_t(unique.size()));
    const auto known = std::find_if(unique.begin(), unique.end(),
                                    [&](const Pair& u) { return equal(rt, u.first, pair.first); });
    if (known == unique.end())
      unique.push_back(pair);
    else
      known->second = pair.second;
  }
  return unique;
}

}  // namespace

Runtime::Runtime(const std::string& what, const JinjaOptions& options)
    : what_(what), options_(options), steps_left_(options.limits.steps),
      memory_left_(int64_t(options.limits.memory_bytes)) {}

// First all that was kept forgets what it holds: only then may the last holder of a long chain go.
Runtime::~Runtime() {
  for (const auto& object : kept_) object->clear();
  kept_.clear();
}

Error Runtime::failure(Code code, const std::string& message) const {
  return error(code, "rendering {}, line {}: {}", what_, line, message);
}

void Runtime::fail_undefined(const Value& value) const {
  const Text* reason = value.reason();
  throw fail("{}", reason ? reason->value : "the value is undefined");
}

void Runtime::fail_steps() const {
  throw fail("the template took {} steps and was not done; it loops for ever, or the conversation is too large",
             options_.limits.steps);
}

void Runtime::spend_text(size_t bytes) {
  if (bytes > options_.limits.text_bytes)
    throw fail("the template makes a text of more than {}; expected a prompt",
               human_bytes(double(options_.limits.text_bytes)));
  step(int64_t(bytes / kBytesPerStep));
}

void Runtime::allocate(size_t bytes) {
  if (int64_t(bytes) > memory_left_)
    throw fail("the template holds more than {} of values; expected a few times the conversation",
               human_bytes(double(options_.limits.memory_bytes)));
  memory_left_ -= int64_t(bytes);
}

void Runtime::adopt(Object& object, size_t bytes) {
  if (object.depth > kMaxValueDepth)
    throw fail("a value is nested more than {} deep", kMaxValueDepth);
  allocate(bytes);
  object.runtime = this;
  object.bytes = bytes;
}

Value Runtime::text(std::string value, bool safe) {
  spend_text(value.size());
  const size_t bytes = value.size();
  return Value::object(Kind::kString, own(std::make_shared<Text>(std::move(value), safe), bytes));
}

Value Runtime::sequence(SequenceType type, Values items) {
  step(int64_t(items.size()));
  const size_t bytes = items.size() * sizeof(Value);
  return Value::object(Kind::kSequence, own(std::make_shared<Sequence>(type, std::move(items)), bytes));
}

Value Runtime::dict(std::vector<Pair> pairs) {
  step(int64_t(pairs.size()));
  const size_t bytes = pairs.size() * (sizeof(Pair) + 64);  // with the index of keys
  for (const Pair& pair : pairs)
    if (!pair.first.is_string() && !pair.first.is_number() && !pair.first.is_none())
      throw fail("a {} is no key of a dict here; expected a string, a number or none", type_name(pair.first));
  auto made = std::make_shared<Dict>(std::move(pairs));
  bool doubled = false;
  for (const Pair& pair : made->pairs) {
    step(pair.first.is_string() ? 1 : int64_t(made->pairs.size()));
    doubled |= made->find(pair.first) != &pair.second;
  }
  if (doubled) made = std::make_shared<Dict>(without_doubles(*this, made->pairs));
  return Value::object(Kind::kDict, own(made, bytes));
}

Value Runtime::space(std::vector<std::pair<std::string, Value>> attributes) {
  auto space = own(std::make_shared<Namespace>(), attributes.size() * 96);
  space->attributes = std::move(attributes);
  keep(space);
  return Value::object(Kind::kNamespace, space);
}

Value Runtime::undefined(std::string reason) {
  const size_t bytes = reason.size();
  return Value::object(Kind::kUndefined, own(std::make_shared<Text>(std::move(reason), false), bytes));
}

Value Runtime::function(std::string name, std::function<Value(Runtime&, const Arguments&)> body, const Value& self) {
  return Value::object(Kind::kCallable, own(std::make_shared<Function>(std::move(name), std::move(body), self), 64));
}

void Depth::fail() {
  const int limit = rt_.options().limits.depth;
  --rt_.depth;  // the destructor of a Depth that was never made does not run
  throw rt_.fail("expressions, statements and macro calls are nested more than {} deep; a macro that calls itself?",
                 limit);
}

void TextBuilder::add(std::string_view text) {
  const size_t size = text_.size() + text.size();
  if (size > rt_.options().limits.text_bytes) rt_.spend_text(size);  // throws
  rt_.spend_text(text.size());
  if (size > counted_) {
    const size_t more = std::max(size, 2 * counted_) - counted_;
    rt_.allocate(more);
    counted_ += more;
    text_.reserve(counted_);
  }
  text_.append(text);
}

Value from_json(Runtime& rt, const OrderedJson& json) {
  switch (json.type()) {
    case OrderedJson::value_t::null: return Value::none();
    case OrderedJson::value_t::boolean: return Value::boolean(json.get<bool>());
    case OrderedJson::value_t::number_integer: return Value::integer(json.get<int64_t>());
    case OrderedJson::value_t::number_unsigned:
      if (json.get<uint64_t>() > uint64_t{INT64_MAX})
        throw rt.unsupported("the number {} is beyond 64 bits", json.get<uint64_t>());
      return Value::integer(json.get<int64_t>());
    case OrderedJson::value_t::number_float: return Value::number(json.get<double>());
    case OrderedJson::value_t::string: return rt.text(json.get<std::string>());
    case OrderedJson::value_t::array: {
      Values items;
      for (const OrderedJson& item : json) items.push_back(from_json(rt, item));
      return rt.list(std::move(items));
    }
    case OrderedJson::value_t::object: {
      std::vector<Pair> pairs;
      for (const auto& [key, item] : json.items()) pairs.emplace_back(rt.text(key), from_json(rt, item));
      return rt.dict(std::move(pairs));
    }
    default: throw rt.unsupported("a {} is no JSON", json.type_name());
  }
}

Values bind(Runtime& rt, const char* function, const Arguments& arguments,
            std::initializer_list<const char*> names) {
  if (arguments.positional.size() > names.size())
    throw rt.fail("{}() takes at most {} arguments ({} given)", function, names.size(), arguments.positional.size());
  Values values = arguments.positional;
  values.resize(names.size());
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) throw rt.fail("{}() got an unexpected keyword argument '{}'", function, name);
    const size_t index = size_t(found - names.begin());
    if (index < arguments.positional.size())
      throw rt.fail("{}() got multiple values for argument '{}'", function, name);
    values[index] = value;
  }
  return values;
}

int64_t int_argument(Runtime& rt, const char* function, const Value& value, int64_t fallback) {
  if (value.is_undefined()) return fallback;
  if (!value.is_integer()) throw rt.fail("{}() wants an integer, not a {}", function, type_name(value));
  return value.as_int();
}

}  // namespace espalier::jinja
