#include "base/human.h"

#include <cmath>

#include <fmt/core.h>

namespace espalier {

std::string human_count(double value) {
  constexpr const char* kUnits[] = {"", "k", "M", "B", "T"};
  if (!std::isfinite(value)) return fmt::format("{}", value);
  int unit = 0;
  // 999.5 would be written as 1000.
  for (; std::abs(value) >= 999.5 && unit < 4; ++unit) value /= 1000;
  const double size = std::abs(value);
  if (unit == 0 && value == std::round(value)) return fmt::format("{:.0f}", value);
  return fmt::format("{:.{}f}{}", value, size < 9.995 ? 2 : size < 99.95 ? 1 : 0, kUnits[unit]);
}

std::string human_bytes(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  for (; bytes >= 1024 && unit < 4; ++unit) bytes /= 1024;
  return fmt::format("{:.{}f} {}", bytes, unit == 0 ? 0 : 1, kUnits[unit]);
}

std::string human_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  if (seconds < 0.0995) return fmt::format("{:.{}f} ms", seconds * 1e3, seconds < 0.00995 && seconds > 0 ? 1 : 0);
  if (seconds < 1) return fmt::format("{:.2f} s", seconds);
  if (seconds < 59.5) return fmt::format("{:.{}f} s", seconds, seconds < 9.95 ? 1 : 0);
  const auto whole = int64_t(std::llround(seconds));
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

}  // namespace espalier
