// Config: each section is a plain struct with one visit(Fields&), a line a field. From it come defaults, TOML reading,
// --section.key=value flags, help, docs/config.md and the resolved config saved in each run folder.
//
//   struct OptimConfig {
//     double lr = 3e-4;
//     std::string schedule = "cosine";
//     void visit(Fields& f) {
//       f.field("lr", lr, "peak learning rate", 0, 10);
//       f.choice("schedule", schedule, {"cosine", "linear", "wsd"}, "how the rate falls");
//     }
//   };
//
// Order: default < recipe file < flag. An unknown key is an Error that names it, its place and the nearest known one.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"

namespace espalier {

/// The visitor. A range is inclusive and checked whenever a value is set.
class Fields {
 public:
  virtual ~Fields() = default;
  virtual void field(const char* name, bool& value, const char* help) = 0;
  virtual void field(const char* name, int64_t& value, const char* help,
                     int64_t min = std::numeric_limits<int64_t>::min(),
                     int64_t max = std::numeric_limits<int64_t>::max()) = 0;
  virtual void field(const char* name, double& value, const char* help, double min = -1e300,
                     double max = 1e300) = 0;
  virtual void field(const char* name, std::string& value, const char* help) = 0;
  virtual void field(const char* name, std::vector<std::string>& value, const char* help) = 0;
  virtual void choice(const char* name, std::string& value,
                      std::initializer_list<const char*> choices, const char* help) = 0;

  template <class Section>
  void section(const char* name, Section& section, const char* help) {
    enter(name, help);
    section.visit(*this);
    leave();
  }

 protected:
  virtual void enter(const char* name, const char* help) = 0;
  virtual void leave() = 0;
};

/// Any struct with visit(Fields&), borrowed.
using ConfigRef = FunctionRef<void(Fields&)>;

/// One field, flattened: "optim.lr".
struct FieldInfo {
  std::string path, type, value, help, range;
};

/// Sets fields from TOML text. `what` names the source. Errors (kUsage) name the key, the line, the value found, the
/// type or range expected, and the nearest known key.
void config_from_toml(std::string_view text, const std::string& what, ConfigRef config);
void config_from_toml_file(const std::string& path, ConfigRef config);

/// Sets one field, as --path=value does. `what` names the source in errors ("--optim.lr"). A list is one item, or
/// several as a TOML array (["a", "b"]).
void config_set(const std::string& path, const std::string& value, const std::string& what,
                ConfigRef config);
/// Sets a list to these items as they are.
void config_set(const std::string& path, const std::vector<std::string>& values, const std::string& what,
                ConfigRef config);

/// A field's flag: "--optim.lr"; outside sections words are joined by dashes, "--max-tokens" for max_tokens.
std::string flag_name(std::string path);

/// All fields with their present values, in order of declaration.
std::vector<FieldInfo> config_fields(ConfigRef config);

/// The resolved config as TOML, each field under its section; reads back to the same values.
std::string config_to_toml(ConfigRef config);

/// For --help: one line a field. For docs/config.md: one table a section.
std::string config_help(ConfigRef config);
std::string config_markdown(ConfigRef config);

}  // namespace espalier

/// Wraps a config struct as a ConfigRef: config_from_toml(text, what, ESP_CONFIG(train)).
#define ESP_CONFIG(object) [&](::espalier::Fields& esp_fields) { (object).visit(esp_fields); }
