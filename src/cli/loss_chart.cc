#include "cli/loss_chart.h"

#include <algorithm>

#include "report/series.h"
#include "report/svg_chart.h"
#include "report/terminal_chart.h"

namespace espalier {

std::string loss_chart(const Terminal& terminal, const RunData& run) {
  std::vector<Series> lines;
  for (const auto& [metric, name] : {std::pair("loss", "train"), std::pair("val_loss", "val")}) {
    Series line{name, {}, {}};
    const auto found = run.metrics.find(metric);
    if (found == run.metrics.end()) continue;
    for (const MetricPoint& p : found->second) {
      line.x.push_back(double(p.step));
      line.y.push_back(p.value);
    }
    // Single batches are noisy; the validation loss is a mean already.
    if (line.name == "train") line = raw_and_smoothed(line).back();
    lines.push_back(thinned(line, 200));
  }
  if (lines.empty()) return "";
  return terminal_chart({.title = "loss",
                         .x_label = "step",
                         .width = std::min(terminal.out_width(), 100),
                         .height = 14,
                         .utf8 = terminal.out_utf8(),
                         .colour = terminal.out_colour()},
                        lines);
}

}  // namespace espalier
