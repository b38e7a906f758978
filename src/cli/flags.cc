// Flags are made from the verb's options struct: the grammar stands here, types and ranges in base/config.
#include <algorithm>
#include <map>
#include <sstream>

#include <fmt/format.h>

#include "base/error.h"
#include "base/suggest.h"
#include "cli/terminal.h"
#include "cli/verb.h"

namespace espalier {
namespace {

struct Positional {
  std::string name;
  bool optional = false, rest = false;
  bool recipe() const { return name == "RECIPE"; }
  std::string shown() const {
    std::string text = recipe() ? "RECIPE.toml" : name;
    if (!recipe()) std::transform(text.begin(), text.end(), text.begin(), ::toupper);
    if (rest) text += "...";
    return optional ? "[" + text + "]" : text;
  }
};

std::vector<Positional> positionals_of(const Verb& verb) {
  std::vector<Positional> list;
  std::istringstream words(verb.positional);
  for (std::string word; words >> word;) {
    Positional p;
    p.optional = word.front() == '[';
    if (p.optional) word = word.substr(1, word.size() - 2);
    p.rest = word.ends_with("...");
    if (p.rest) word.resize(word.size() - 3);
    p.name = word;
    list.push_back(p);
  }
  return list;
}

std::string usage_of(const Verb& verb) {
  std::string usage = "espalier " + std::string(verb.name);
  for (const Positional& p : positionals_of(verb)) usage += " " + p.shown();
  return usage + " [--flag value ...]";
}

void print_help(Terminal& terminal, const Verb& verb, ConfigRef options) {
  const std::string flags = config_help(options), shared = config_help(ESP_CONFIG(terminal.settings()));
  terminal.print("{}\n\nusage: {}\n", verb.summary, usage_of(verb));
  if (!flags.empty()) terminal.print("\nflags [default; range]:\n{}", flags);
  terminal.print("\nflags of every verb:\n{}  --help\n", shared);
  terminal.print("\nexample:\n");
  std::istringstream lines(verb.example);
  for (std::string line; std::getline(lines, line);) terminal.print("  {}\n", line);
}

/// Reads one command line; the order of setting is recipe, then the rest as it stands.
class Reader {
 public:
  Reader(const Verb& verb, ConfigRef options, ConfigRef shared) : verb_(verb), options_(options), shared_(shared) {
    for (const FieldInfo& field : config_fields(options)) fields_[field.path] = field.type;
    for (const FieldInfo& field : config_fields(shared)) {
      fields_[field.path] = field.type;
      shared_fields_.push_back(field.path);
    }
  }

  void read(std::span<const std::string> args) {
    bool flags = true;
    for (size_t i = 0; i < args.size(); ++i) {
      const std::string& arg = args[i];
      if (flags && arg == "--") {
        flags = false;
      } else if (flags && arg.size() > 1 && arg[0] == '-') {
        i += read_flag(arg, i + 1 < args.size() ? &args[i + 1] : nullptr);
      } else {
        values_.push_back(arg);
      }
    }
    place_positionals();
    apply();
  }

 private:
  Error usage_error(const std::string& message) const {
    return error(Code::kUsage, "{}; usage: {}; `espalier {} --help` says more", message, usage_of(verb_), verb_.name);
  }

  /// Returns how many further arguments were taken.
  size_t read_flag(const std::string& arg, const std::string* next) {
    const size_t equals = arg.find('=');
    const std::string shown = arg.substr(0, equals);
    const std::string path = path_of(shown);
    std::string value;
    bool taken = false;
    if (equals != std::string::npos) {
      value = arg.substr(equals + 1);
    } else if (fields_[path] == "bool") {
      value = "true";
    } else if (next && (next->size() < 2 || next->substr(0, 2) != "--")) {
      value = *next;
      taken = true;
    } else {
      throw usage_error(next
                            ? fmt::format("{} needs a value; write {}={} if that is what you mean", shown, shown, *next)
                            : fmt::format("{} needs a value", shown));
    }
    add(path, shown, value);
    return taken;
  }

  std::string path_of(const std::string& shown) const {
    std::string path = shown.substr(std::min(shown.find_first_not_of('-'), shown.size()));
    std::replace(path.begin(), path.end(), '-', '_');
    if (shown.starts_with("--") && fields_.contains(path)) return path;
    if (const std::string whole = whole_path(path); shown.starts_with("--") && !whole.empty()) return whole;
    std::vector<std::string> names;
    for (const auto& [name, type] : fields_) names.push_back(flag_name(name));
    std::string hint = did_you_mean(flag_name(path), names);
    for (const auto& [name, type] : fields_)  // the right name under the wrong section
      if (hint.empty() && name.substr(name.rfind('.') + 1) == path.substr(path.rfind('.') + 1))
        hint = " (did you mean '" + flag_name(name) + "'?)";
    throw usage_error("unknown flag " + shown + hint);
  }

  /// A name without its section, where only one section has it: "max_steps" is "run.max_steps".
  std::string whole_path(const std::string& name) const {
    std::string found;
    for (const auto& [path, type] : fields_) {
      if (!path.ends_with("." + name)) continue;
      if (!found.empty()) return "";
      found = path;
    }
    return found;
  }

  void add(const std::string& path, const std::string& shown, const std::string& value) {
    std::vector<std::string>& given = given_[path];
    if (!given.empty() && fields_[path] != "list") throw usage_error(shown + " is given twice");
    given.push_back(value);
  }

  void place_positionals() {
    size_t next = 0;
    for (const Positional& p : positionals_of(verb_)) {
      if (next == values_.size()) {
        if (!p.optional && !given_.contains(p.name)) throw usage_error(p.shown() + " is missing");
        continue;
      }
      do {
        if (p.recipe())
          recipe_ = values_[next];
        else
          add(p.name, p.shown(), values_[next]);
      } while (++next < values_.size() && p.rest);
    }
    if (next < values_.size()) throw usage_error(fmt::format("unexpected argument '{}'", values_[next]));
  }

  void apply() {
    if (!recipe_.empty()) config_from_toml_file(recipe_, options_);
    for (const auto& [path, values] : given_) {
      const bool shared = std::find(shared_fields_.begin(), shared_fields_.end(), path) != shared_fields_.end();
      const ConfigRef target = shared ? shared_ : options_;
      const bool items = fields_[path] == "list" && (values.size() > 1 || !values[0].starts_with("["));
      if (items)
        config_set(path, values, flag_name(path), target);
      else
        config_set(path, values[0], flag_name(path), target);
    }
  }

  const Verb& verb_;
  ConfigRef options_, shared_;
  std::map<std::string, std::string> fields_;  ///< path to type
  std::vector<std::string> shared_fields_;
  std::map<std::string, std::vector<std::string>> given_;
  std::vector<std::string> values_;
  std::string recipe_;
};

}  // namespace

bool read_args(Terminal& terminal, const Verb& verb, std::span<const std::string> args, ConfigRef options) {
  for (const std::string& arg : args) {
    if (arg == "--") break;
    if (arg == "--help" || arg == "-h") {
      print_help(terminal, verb, options);
      return false;
    }
  }
  auto shared = ESP_CONFIG(terminal.settings());
  Reader(verb, options, shared).read(args);
  terminal.settings_changed();
  return true;
}

}  // namespace espalier
