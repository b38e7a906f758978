// Line charts as SVG that needs nothing beside it: axes with round ticks, linear or logarithmic, a legend, raw values
// pale behind smoothed ones. Colours follow the reader's light or dark system.
#pragma once
#include <span>
#include <string>

#include "report/series.h"

namespace espalier {

struct SvgChart {
  std::string title, x_label, y_label;
  bool log_x = false, log_y = false;
  bool from_zero = false;  ///< the y axis begins at 0
  int width = 640, height = 300;
};

/// One <svg> element. Series of many points are thinned to what the width can show.
std::string svg_chart(const SvgChart& chart, std::span<const Series> series);

/// The raw series, pale, and its moving average, for one call of svg_chart. A longer series is smoothed over more
/// values (a fortieth of it, 5 to 100), so that the line shows the trend at any length.
std::vector<Series> raw_and_smoothed(const Series& series);

}  // namespace espalier
