// A line chart made of characters: Braille dots (two by four a cell) where the terminal has UTF-8, plain ASCII
// elsewhere.
#pragma once
#include <span>
#include <string>

#include "report/series.h"

namespace espalier {

struct TerminalChart {
  std::string title, x_label;
  int width = 72, height = 12;  ///< characters, labels included
  bool utf8 = true, colour = false;
  bool log_x = false, log_y = false;
};

/// Lines of text, each ended by a newline. The first series is drawn last, so that it lies on top.
std::string terminal_chart(const TerminalChart& chart, std::span<const Series> series);

}  // namespace espalier
