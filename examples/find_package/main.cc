// Draws a loss curve in the terminal with Espalier's library.
#include <cmath>
#include <cstdio>

#include "report/terminal_chart.h"

int main() {
  espalier::Series loss{"loss", {}, {}};
  for (int step = 1; step <= 400; ++step) {
    loss.x.push_back(step);
    loss.y.push_back(2 + 6 * std::exp(-step / 60.0));
  }
  std::fputs(espalier::terminal_chart({.x_label = "step"}, {{loss}}).c_str(), stdout);
}
