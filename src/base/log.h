// The log: library code says what happens through a Log it was given; where the lines go is the program's choice.
#pragma once
#include <string>
#include <string_view>

#include <fmt/core.h>

namespace espalier {

enum class LogLevel { kTrace, kDebug, kInfo, kWarn, kError };

/// "trace" ... "error" to a level; anything else is an Error naming the choices.
LogLevel parse_log_level(std::string_view name);

class Log {
 public:
  virtual ~Log() = default;

  template <class... Args>
  void debug(fmt::format_string<Args...> format, Args&&... args) {
    line(LogLevel::kDebug, format, std::forward<Args>(args)...);
  }
  template <class... Args>
  void info(fmt::format_string<Args...> format, Args&&... args) {
    line(LogLevel::kInfo, format, std::forward<Args>(args)...);
  }
  template <class... Args>
  void warn(fmt::format_string<Args...> format, Args&&... args) {
    line(LogLevel::kWarn, format, std::forward<Args>(args)...);
  }
  template <class... Args>
  void error(fmt::format_string<Args...> format, Args&&... args) {
    line(LogLevel::kError, format, std::forward<Args>(args)...);
  }

  bool enabled(LogLevel level) const { return level >= level_; }
  void set_level(LogLevel level) { level_ = level; }

 protected:
  /// Receives whole lines; called from any thread.
  virtual void write(LogLevel level, const std::string& message) = 0;

 private:
  template <class... Args>
  void line(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
    if (enabled(level)) write(level, fmt::format(format, std::forward<Args>(args)...));
  }

  LogLevel level_ = LogLevel::kInfo;
};

/// Drops everything; for tests and for callers that want silence.
Log& silent_log();

}  // namespace espalier
