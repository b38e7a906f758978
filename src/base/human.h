// Numbers for people: short, with a unit, never more digits than mean something.
#pragma once
#include <cstdint>
#include <string>

namespace espalier {

/// 950, "12.3k", "1.24M", "2.5B" (thousands, three digits).
std::string human_count(double value);
/// "512 B", "1.5 KiB", "2.0 GiB".
std::string human_bytes(double bytes);
/// "4.2 ms", "0.42 s", "12 s", "3:07", "2:03:07".
std::string human_duration(double seconds);

}  // namespace espalier
