// Time: one monotonic clock, in seconds.
#pragma once
#include <chrono>

namespace espalier {

/// Seconds on the monotonic clock; differences only.
inline double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Seconds since the epoch (wall clock), for records.
inline double wall_clock_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Measures from its construction.
class Stopwatch {
 public:
  double seconds() const { return now_s() - start_; }
  double ms() const { return seconds() * 1e3; }
  /// Seconds since construction or the last lap.
  double lap() {
    const double now = now_s(), elapsed = now - start_;
    start_ = now;
    return elapsed;
  }

 private:
  double start_ = now_s();
};

}  // namespace espalier
