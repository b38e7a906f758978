// The middle of some measurements.
#pragma once
#include <algorithm>
#include <vector>

#include "base/check.h"

namespace espalier {

inline double median(std::vector<double> values) {
  ESP_CHECK(!values.empty(), "no values");
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace espalier
