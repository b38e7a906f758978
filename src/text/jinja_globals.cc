// The functions that every template finds: range, dict, namespace, cycler, joiner of Jinja, raise_exception and
// strftime_now of transformers.
#include <algorithm>
#include <ctime>

#include "text/jinja_runtime.h"
#include "text/jinja_string.h"

namespace espalier::jinja {
namespace {

constexpr int64_t kMaxRange = 100'000;  // Jinja's own bound for sandboxes

Value range(Runtime& rt, const Arguments& arguments) {
  const Values& args = arguments.positional;
  if (args.empty() || args.size() > 3 || !arguments.named.empty()) throw rt.fail("range() takes 1 to 3 integers");
  for (const Value& arg : args) {
    if (arg.is_undefined()) rt.fail_undefined(arg);
    if (!arg.is_integer()) throw rt.fail("range() wants integers, not a {}", type_name(arg));
  }
  const int64_t begin = args.size() > 1 ? args[0].as_int() : 0, end = args[args.size() > 1].as_int();
  const int64_t step = args.size() > 2 ? args[2].as_int() : 1;
  if (step == 0) throw rt.fail("range() arg 3 must not be zero");
  const __int128 span = step > 0 ? __int128(end) - begin : __int128(begin) - end;
  const __int128 stride = step > 0 ? __int128(step) : -__int128(step);
  const __int128 count = span <= 0 ? 0 : (span + stride - 1) / stride;
  if (count > kMaxRange) throw rt.fail("Range too big: more than {} items", kMaxRange);
  rt.step(int64_t(count));
  Values items;
  for (int64_t i = 0; i < int64_t(count); ++i) items.push_back(Value::integer(begin + i * step));
  return rt.sequence(SequenceType::kRange, std::move(items));
}

/// The pairs of dict(...): of a dict or a sequence of pairs, then the named arguments.
std::vector<Pair> pairs_of(Runtime& rt, const Arguments& arguments) {
  std::vector<Pair> pairs;
  if (arguments.positional.size() > 1) throw rt.fail("dict() takes one argument without a name at most");
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (source.is_dict()) {
      pairs = source.dict().pairs;
    } else {
      const Value items = walk(rt, source);
      for (const Value& item : items.sequence().items) {
        const Value pair = walk(rt, item);
        const Values& two = pair.sequence().items;
        if (two.size() != 2) throw rt.fail("dict() wants pairs; found {} values", two.size());
        pairs.emplace_back(two[0], two[1]);
      }
    }
  }
  for (const auto& [name, value] : arguments.named) pairs.emplace_back(rt.text(name), value);
  return pairs;
}

Value dict(Runtime& rt, const Arguments& arguments) { return rt.dict(pairs_of(rt, arguments)); }

Value make_namespace(Runtime& rt, const Arguments& arguments) {
  const Value made = dict(rt, arguments);
  std::vector<std::pair<std::string, Value>> attributes;
  for (const auto& [key, value] : made.dict().pairs) {
    const std::string name = to_text(rt, key);
    if (name.starts_with('_'))
      throw rt.fail("namespace(): '{}' begins with an underscore, which transformers refuses; rename it", name);
    attributes.emplace_back(name, value);
  }
  return rt.space(std::move(attributes));
}

Value raise_exception(Runtime& rt, const Arguments& arguments) {
  const Values args = bind(rt, "raise_exception", arguments, {"message"});
  throw rt.failure(Code::kUsage, "the template refuses the conversation: " + to_text(rt, args[0]));
}

Value strftime_now(Runtime& rt, const Arguments& arguments) {
  const Values args = bind(rt, "strftime_now", arguments, {"format"});
  if (!args[0].is_string()) throw rt.fail("strftime_now() wants a string, not a {}", type_name(args[0]));
  std::tm now{};
  const std::time_t seconds = std::time(nullptr);
  ::localtime_r(&seconds, &now);
  if (rt.options().now) now = *rt.options().now;
  char buffer[1024];
  const size_t size = std::strftime(buffer, sizeof buffer, args[0].string().c_str(), &now);
  return rt.text(std::string(buffer, size));
}

class Cycler : public Callable {
 public:
  explicit Cycler(Value items) : items_(std::move(items)) {}

  Value call(Runtime& rt, const Arguments&) override { throw rt.fail("'Cycler' object is not callable; use .next()"); }
  std::unique_ptr<Value> attribute(Runtime& rt, std::string_view name) override {
    if (name == "current") return std::make_unique<Value>(current());
    if (name != "next" && name != "reset") return nullptr;
    // The Runtime keeps cyclers, so the function may point to this one.
    const auto body = [this, next = name == "next"](Runtime&, const Arguments&) {
      const Value value = next ? current() : Value::none();
      at_ = next ? at_ + 1 : 0;
      return value;
    };
    return std::make_unique<Value>(rt.function(std::string(name), body));
  }
  void clear() override { items_ = Value(); }
  std::string describe() const override { return "<Cycler>"; }

 private:
  const Value& current() const {
    const Values& items = items_.sequence().items;
    return items[at_ % items.size()];
  }
  Value items_;
  size_t at_ = 0;
};

Value cycler(Runtime& rt, const Arguments& arguments) {
  if (arguments.positional.empty()) throw rt.fail("cycler(): at least one item has to be provided");
  const auto made = rt.own(std::make_shared<Cycler>(rt.tuple(arguments.positional)), 0);
  rt.keep(made);
  return Value::object(Kind::kCallable, made);
}

class Joiner : public Callable {
 public:
  explicit Joiner(std::string separator) : separator_(std::move(separator)) {}
  Value call(Runtime& rt, const Arguments&) override { return rt.text(std::exchange(used_, true) ? separator_ : ""); }
  std::string describe() const override { return "<Joiner>"; }

 private:
  std::string separator_;
  bool used_ = false;
};

Value joiner(Runtime& rt, const Arguments& arguments) {
  const Values args = bind(rt, "joiner", arguments, {"sep"});
  const std::string separator = args[0].is_undefined() ? ", " : to_text(rt, args[0]);
  return Value::object(Kind::kCallable, rt.own(std::make_shared<Joiner>(separator), separator.size()));
}

Value lipsum(Runtime& rt, const Arguments&) { throw rt.unsupported("the function 'lipsum'"); }

}  // namespace

std::optional<Value> find_global(Runtime& rt, std::string_view name) {
  struct Row {
    std::string_view name;
    Value (*function)(Runtime&, const Arguments&);
  };
  constexpr Row kRows[] = {{"range", range},
                           {"dict", dict},
                           {"namespace", make_namespace},
                           {"raise_exception", raise_exception},
                           {"strftime_now", strftime_now},
                           {"cycler", cycler},
                           {"joiner", joiner},
                           {"lipsum", lipsum}};
  for (const Row& row : kRows)
    if (row.name == name) return rt.function(std::string(name), row.function);
  return std::nullopt;
}

}  // namespace espalier::jinja
