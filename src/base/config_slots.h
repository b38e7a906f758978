// A config flattened: one pass of visit() gives a slot a field, and reading, setting, writing and documenting are loops
// over slots. Private to base/config.cc and base/config_text.cc.
#pragma once
#include <cstdint>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "base/config.h"

namespace espalier {

struct Slot {
  using Target = std::variant<bool*, int64_t*, double*, std::string*, std::vector<std::string>*>;
  static constexpr int64_t kIntMin = std::numeric_limits<int64_t>::min(), kIntMax = std::numeric_limits<int64_t>::max();
  static constexpr double kDoubleLimit = 1e300;

  std::string section, name;
  const char* help;
  Target target;
  int64_t int_min = kIntMin, int_max = kIntMax;
  double min = -kDoubleLimit, max = kDoubleLimit;
  std::vector<std::string> choices;

  std::string path() const { return section.empty() ? name : section + "." + name; }
  /// "bool", "int", "number", "text", "list", "choice".
  const char* type() const;
  /// "0 to 10", ">= 1", "a | b", or "". An upper bound beyond the guards is there to catch slips of the keyboard and is
  /// not worth a reader's time.
  std::string range(int64_t int_guard = int64_t{1} << 20, double guard = 1e6) const;
  /// What may stand here, for errors: "an integer, >= 1".
  std::string expected() const;
  /// The present value as TOML.
  std::string value() const;
};

struct SectionInfo {
  std::string path;
  const char* help;
};

class FlatConfig : public Fields {
 public:
  explicit FlatConfig(ConfigRef config);

  void field(const char* name, bool& value, const char* help) override;
  void field(const char* name, int64_t& value, const char* help, int64_t min, int64_t max) override;
  void field(const char* name, double& value, const char* help, double min, double max) override;
  void field(const char* name, std::string& value, const char* help) override;
  void field(const char* name, std::vector<std::string>& value, const char* help) override;
  void choice(const char* name, std::string& value, std::initializer_list<const char*> choices,
              const char* help) override;

  std::vector<Slot> slots;
  std::vector<SectionInfo> sections;  ///< in order of declaration; the first is the top level

 protected:
  void enter(const char* name, const char* help) override;
  void leave() override;

 private:
  Slot& add(const char* name, Slot::Target target, const char* help);
  std::string prefix_;
};

}  // namespace espalier
