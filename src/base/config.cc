// Reading and setting: TOML and flags into the slots of base/config_slots.h.
#include "base/config.h"

#include <algorithm>
#include <charconv>
#include <sstream>

#include <fmt/format.h>
#include <toml++/toml.h>

#include "base/config_slots.h"
#include "base/error.h"
#include "base/file.h"
#include "base/suggest.h"

namespace espalier {
namespace {

// ---- setting a field; false when the value does not fit ----

// TOML, and so every file that a config is saved to, is UTF-8.
bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const int more = lead < 0x80 ? 0 : lead >> 5 == 6 ? 1 : lead >> 4 == 14 ? 2 : lead >> 3 == 30 ? 3 : -1;
    if (more < 0 || i + size_t(more) >= text.size()) return false;
    uint32_t code = more == 0 ? lead : lead & (0x3Fu >> more);
    for (int k = 1; k <= more; ++k) {
      const auto next = static_cast<unsigned char>(text[i + size_t(k)]);
      if (next >> 6 != 2) return false;
      code = code << 6 | (next & 0x3F);
    }
    constexpr uint32_t kLeast[] = {0, 0x80, 0x800, 0x10000};
    if (code < kLeast[more] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return false;
    i += size_t(more) + 1;
  }
  return true;
}

bool assign(const Slot& slot, bool value) {
  bool* const* target = std::get_if<bool*>(&slot.target);
  if (target) **target = value;
  return target;
}

bool assign(const Slot& slot, double value) {
  double* const* target = std::get_if<double*>(&slot.target);
  if (!target || !(value >= slot.min && value <= slot.max)) return false;
  **target = value;
  return true;
}

bool assign(const Slot& slot, int64_t value) {
  int64_t* const* target = std::get_if<int64_t*>(&slot.target);
  if (!target) return assign(slot, double(value));
  if (value < slot.int_min || value > slot.int_max) return false;
  **target = value;
  return true;
}

bool assign(const Slot& slot, const std::string& value) {
  std::string* const* target = std::get_if<std::string*>(&slot.target);
  if (!target || !is_utf8(value)) return false;
  if (!slot.choices.empty() && std::find(slot.choices.begin(), slot.choices.end(), value) == slot.choices.end())
    return false;
  **target = value;
  return true;
}

bool assign(const Slot& slot, const toml::array& values) {
  std::vector<std::string>* const* target = std::get_if<std::vector<std::string>*>(&slot.target);
  if (!target) return false;
  std::vector<std::string> items;
  for (const toml::node& node : values) {
    if (!node.is_string()) return false;
    items.push_back(node.as_string()->get());
  }
  **target = std::move(items);
  return true;
}

bool assign(const Slot& slot, const toml::node& node) {
  if (const auto* v = node.as_boolean()) return assign(slot, v->get());
  if (const auto* v = node.as_integer()) return assign(slot, v->get());
  if (const auto* v = node.as_floating_point()) return assign(slot, v->get());
  if (const auto* v = node.as_string()) return assign(slot, v->get());
  if (const auto* v = node.as_array()) return assign(slot, *v);
  return false;
}

// ---- errors ----

std::string suggestion(const FlatConfig& flat, const std::string& path) {
  std::vector<std::string> paths;
  for (const Slot& slot : flat.slots) paths.push_back(slot.path());
  const std::string hint = did_you_mean(path, paths);
  if (!hint.empty()) return hint;
  // The right name under the wrong section.
  const std::string leaf = path.substr(path.rfind('.') + 1);
  for (const Slot& slot : flat.slots)
    if (slot.name == leaf) return " (did you mean '" + slot.path() + "'?)";
  return "";
}

std::string known_keys(const FlatConfig& flat, const std::string& section) {
  std::vector<std::string> names;
  for (const Slot& slot : flat.slots)
    if (slot.section == section) names.push_back(slot.name);
  for (const SectionInfo& s : flat.sections)
    if (!s.path.empty() && s.path.substr(0, s.path.rfind('.') == std::string::npos ? 0 : s.path.rfind('.')) == section)
      names.push_back("[" + s.path + "]");
  return fmt::format("{}", fmt::join(names, ", "));
}

Error unknown_key(const FlatConfig& flat, const std::string& place, const std::string& path) {
  std::string hint = suggestion(flat, path);
  if (hint.empty()) {
    std::string section = path.substr(0, path.find('.') == std::string::npos ? 0 : path.rfind('.'));
    if (known_keys(flat, section).empty()) section.clear();
    hint = fmt::format("; {} has {}", section.empty() ? "the top level" : "[" + section + "]",
                       known_keys(flat, section));
  }
  return error(Code::kUsage, "{}: unknown key '{}'{}", place, path, hint);
}

const Slot* find_slot(const FlatConfig& flat, const std::string& path) {
  for (const Slot& slot : flat.slots)
    if (slot.path() == path) return &slot;
  return nullptr;
}

std::string value_as_written(const toml::node& node) {
  std::ostringstream text;
  node.visit([&](const auto& v) { text << v; });
  std::string out = text.str();
  if (out.size() > 60) out = out.substr(0, 57) + "...";
  return out;
}

// ---- reading TOML ----

void read_table(const toml::table& table, const std::string& prefix, const std::string& what, const FlatConfig& flat) {
  for (const auto& [key, node] : table) {
    const std::string path = prefix.empty() ? std::string(key.str()) : prefix + "." + std::string(key.str());
    const std::string place = fmt::format("{}:{}", what, key.source().begin.line);
    const auto is_section = [&](const SectionInfo& s) { return s.path == path; };
    const bool section = std::any_of(flat.sections.begin() + 1, flat.sections.end(), is_section);
    if (section) {
      if (!node.is_table())
        throw error(Code::kUsage, "{}: '{}' is a section: write [{}] and its keys below", place, path, path);
      read_table(*node.as_table(), path, what, flat);
      continue;
    }
    const Slot* slot = find_slot(flat, path);
    if (!slot) {
      if (!node.is_table() || node.as_table()->empty()) throw unknown_key(flat, place, path);
      std::vector<std::string> names;
      for (const SectionInfo& s : flat.sections) names.push_back(s.path);
      throw error(Code::kUsage, "{}: unknown section [{}]{}", place, path, did_you_mean(path, names));
    }
    if (!assign(*slot, node))
      throw error(Code::kUsage, "{}: {} = {}: expected {}", place, path, value_as_written(node), slot->expected());
  }
}

toml::table parse_toml(std::string_view text, const std::string& what) {
  try {
    return toml::parse(text, what);
  } catch (const toml::parse_error& e) {  // the library's edge: its exception becomes ours
    throw error(Code::kUsage, "{}:{}: not valid TOML at column {}: {}", what, e.source().begin.line,
                e.source().begin.column, e.description());
  }
}

// ---- reading a flag ----

template <class T>
bool parse_number(std::string_view text, T& value) {
  std::string digits;
  for (const char c : text)
    if (c != '_') digits += c;
  if (!digits.empty() && digits[0] == '+') digits.erase(0, 1);
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return failure == std::errc() && end == digits.data() + digits.size() && !digits.empty();
}

bool assign_items(const Slot& slot, const std::vector<std::string>& values) {
  std::vector<std::string>* const* target = std::get_if<std::vector<std::string>*>(&slot.target);
  if (!target || !std::all_of(values.begin(), values.end(), is_utf8)) return false;
  **target = values;
  return true;
}

bool assign_list(const Slot& slot, const std::string& value) {
  if (value.empty() || value[0] != '[')
    return assign_items(slot, value.empty() ? std::vector<std::string>{} : std::vector{value});
  const toml::table table = parse_toml("list = " + value, "the list of " + slot.path());
  const toml::array* items = table["list"].as_array();
  return items && table.size() == 1 && assign(slot, *items);
}

bool assign_text(const Slot& slot, const std::string& value) {
  struct Reader {
    const Slot& slot;
    const std::string& text;
    bool operator()(bool*) { return (text == "true" || text == "false") && assign(slot, text == "true"); }
    bool operator()(int64_t*) {
      int64_t v = 0;
      return parse_number(text, v) && assign(slot, v);
    }
    bool operator()(double*) {
      double v = 0;
      return parse_number(text, v) && assign(slot, v);
    }
    bool operator()(std::string*) { return assign(slot, text); }
    bool operator()(std::vector<std::string>*) { return assign_list(slot, text); }
  };
  return std::visit(Reader{slot, value}, slot.target);
}

}  // namespace

void config_from_toml(std::string_view text, const std::string& what, ConfigRef config) {
  const FlatConfig flat(config);
  read_table(parse_toml(text, what), "", what, flat);
}

void config_from_toml_file(const std::string& path, ConfigRef config) {
  config_from_toml(read_file(path, size_t{1} << 24), path, config);
}

void config_set(const std::string& path, const std::string& value, const std::string& what, ConfigRef config) {
  const FlatConfig flat(config);
  const Slot* slot = find_slot(flat, path);
  if (!slot) throw unknown_key(flat, what, path);
  if (!assign_text(*slot, value))
    throw error(Code::kUsage, "{}={}: expected {}", what, value, slot->expected());
}

void config_set(const std::string& path, const std::vector<std::string>& values, const std::string& what,
                ConfigRef config) {
  const FlatConfig flat(config);
  const Slot* slot = find_slot(flat, path);
  if (!slot) throw unknown_key(flat, what, path);
  if (!assign_items(*slot, values))
    throw error(Code::kUsage, "{}={}: expected {}", what, fmt::join(values, ","), slot->expected());
}

}  // namespace espalier
