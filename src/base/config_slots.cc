#include "base/config_slots.h"

#include <fmt/format.h>

namespace espalier {
namespace {

std::string number_text(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";  // 'n' is of inf and nan
  return text;
}

template <class T>
std::string range_text(T min, T max, bool no_min, bool no_max) {
  if (no_min && no_max) return "";
  if (no_max) return fmt::format(">= {}", min);
  if (no_min) return fmt::format("<= {}", max);
  return fmt::format("{} to {}", min, max);
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      out += fmt::format("\\u{:04X}", int(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace

const char* Slot::type() const {
  if (!choices.empty()) return "choice";
  constexpr const char* kNames[] = {"bool", "int", "number", "text", "list"};
  return kNames[target.index()];
}

std::string Slot::range(int64_t int_guard, double guard) const {
  if (!choices.empty()) return fmt::format("{}", fmt::join(choices, " | "));
  if (std::holds_alternative<int64_t*>(target))
    return range_text(int_min, int_max, int_min == kIntMin, int_max >= int_guard);
  if (std::holds_alternative<double*>(target)) return range_text(min, max, min <= -kDoubleLimit, max >= guard);
  return "";
}

std::string Slot::expected() const {
  if (!choices.empty()) return fmt::format("one of {}", fmt::join(choices, ", "));
  constexpr const char* kWords[] = {"true or false", "an integer", "a number", "a text in UTF-8",
                                    "a list of texts in UTF-8"};
  const std::string whole = range(kIntMax, kDoubleLimit);
  return kWords[target.index()] + (whole.empty() ? "" : ", " + whole);
}

std::string Slot::value() const {
  struct Writer {
    std::string operator()(const bool* v) { return *v ? "true" : "false"; }
    std::string operator()(const int64_t* v) { return std::to_string(*v); }
    std::string operator()(const double* v) { return number_text(*v); }
    std::string operator()(const std::string* v) { return quoted(*v); }
    std::string operator()(const std::vector<std::string>* v) {
      std::vector<std::string> items;
      for (const std::string& item : *v) items.push_back(quoted(item));
      return fmt::format("[{}]", fmt::join(items, ", "));
    }
  };
  return std::visit(Writer{}, target);
}

FlatConfig::FlatConfig(ConfigRef config) {
  sections.push_back({"", ""});
  config(*this);
}

Slot& FlatConfig::add(const char* name, Slot::Target target, const char* help) {
  return slots.emplace_back(Slot{prefix_, name, help, target});
}

void FlatConfig::field(const char* name, bool& value, const char* help) { add(name, &value, help); }

void FlatConfig::field(const char* name, int64_t& value, const char* help, int64_t min, int64_t max) {
  Slot& slot = add(name, &value, help);
  slot.int_min = min, slot.int_max = max;
}

void FlatConfig::field(const char* name, double& value, const char* help, double min, double max) {
  Slot& slot = add(name, &value, help);
  slot.min = min, slot.max = max;
}

void FlatConfig::field(const char* name, std::string& value, const char* help) { add(name, &value, help); }

void FlatConfig::field(const char* name, std::vector<std::string>& value, const char* help) {
  add(name, &value, help);
}

void FlatConfig::choice(const char* name, std::string& value, std::initializer_list<const char*> choices,
                        const char* help) {
  add(name, &value, help).choices.assign(choices.begin(), choices.end());
}

void FlatConfig::enter(const char* name, const char* help) {
  prefix_ = prefix_.empty() ? name : prefix_ + "." + name;
  sections.push_back({prefix_, help});
}

void FlatConfig::leave() {
  const size_t dot = prefix_.rfind('.');
  prefix_.resize(dot == std::string::npos ? 0 : dot);
}

}  // namespace espalier
