#include "base/log.h"

#include "base/error.h"

namespace espalier {

LogLevel parse_log_level(std::string_view name) {
  constexpr std::string_view kNames[] = {"trace", "debug", "info", "warn", "error"};
  for (int i = 0; i < 5; ++i)
    if (name == kNames[i]) return LogLevel(i);
  throw espalier::error(Code::kUsage, "log level '{}': expected trace, debug, info, warn or error", name);
}

Log& silent_log() {
  class Silent : public Log {
    void write(LogLevel, const std::string&) override {}
  };
  static Silent log;
  return log;
}

}  // namespace espalier
