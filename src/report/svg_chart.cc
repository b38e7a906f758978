#include "report/svg_chart.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "report/html_page.h"

namespace espalier {
namespace {

constexpr int kLeft = 58, kRight = 14, kTop = 34, kBottom = 40, kPalette = 6;

// Each chart carries its style, so that it can also stand alone in a file. The palette keeps its order for readers
// who cannot tell red from green: green, orange, blue, purple, red, grey differ in lightness too.
constexpr const char* kStyle = R"(<style>
.esp { font: 12px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; --t: #1c2321; --f: #66716c; --g: #e3e7e4;
  --c0: #2f7d4f; --c1: #d9822b; --c2: #3b6fb6; --c3: #8a5aa8; --c4: #b8383d; --c5: #7a8580; }
@media (prefers-color-scheme: dark) { .esp { --t: #e4e8e5; --f: #96a19b; --g: #2e3532; --c0: #6cc08d; --c1: #f0a35a;
  --c2: #7fa8e0; --c3: #bd93d8; --c4: #e8777b; --c5: #a3ada8; } }
.esp text { fill: var(--f); } .esp .t { fill: var(--t); font-weight: 600; font-size: 13px; }
.esp .g { stroke: var(--g); }
.esp path { fill: none; stroke-width: 1.6; stroke-linejoin: round; stroke-linecap: round; }
.esp .faint { stroke-opacity: .28; stroke-width: 1; }
</style>)";

struct Frame {
  const SvgChart& chart;
  Axis x, y;
  double px(double value) const { return kLeft + x.place(value) * (chart.width - kLeft - kRight); }
  double py(double value) const { return chart.height - kBottom - y.place(value) * (chart.height - kTop - kBottom); }
};

std::string dot(double x, double y, int colour) {
  return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"var(--c{})\"/>", x, y, colour);
}

/// A line with gaps where values are missing; a point alone between gaps, or a series of dots, as dots.
std::string drawn(const Frame& frame, const Series& series, int colour) {
  std::string path, dots;
  for (size_t i = 0; i < series.x.size(); ++i) {
    const auto there = [&](size_t k) {
      return k < series.x.size() && frame.x.holds(series.x[k]) && frame.y.holds(series.y[k]);
    };
    if (!there(i)) continue;
    const double x = frame.px(series.x[i]), y = frame.py(series.y[i]);
    const bool begins = i == 0 || !there(i - 1);
    if (series.dots || (begins && !there(i + 1))) dots += dot(x, y, colour);
    else path += fmt::format("{}{:.1f} {:.1f}", begins ? "M" : "L", x, y);
  }
  if (!path.empty())
    path =
        fmt::format("<path{} stroke=\"var(--c{})\" d=\"{}\"/>\n", series.faint ? " class=\"faint\"" : "", colour, path);
  return path + dots;
}

/// The colour of each series: its place among those with a name of their own; a faint one shares its successor's.
std::vector<int> colours_of(std::span<const Series> series) {
  std::vector<int> colours;
  int next = 0;
  for (const Series& s : series) colours.push_back((s.faint ? next : next++) % kPalette);
  return colours;
}

std::string grid(const Frame& frame) {
  const SvgChart& c = frame.chart;
  const int bottom = c.height - kBottom, right = c.width - kRight;
  std::string out;
  for (const double tick : frame.y.ticks()) {
    const double y = frame.py(tick);
    out += fmt::format("<line class=\"g\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>", kLeft, right, y, y);
    out += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", kLeft - 8, y + 4,
                       frame.y.label(tick));
  }
  for (const double tick : frame.x.ticks()) {
    const double x = frame.px(tick);
    const char* anchor = x > right - 12 ? "end" : "middle";
    out += fmt::format("<line class=\"g\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{}\" y2=\"{}\"/>", x, x, bottom, bottom + 4);
    out += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"{}\">{}</text>\n", std::min(x, double(right)),
                       bottom + 17, anchor, frame.x.label(tick));
  }
  out += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", (kLeft + right) / 2, c.height - 6,
                     html_escape(c.x_label));
  return out;
}

// Right-aligned beside the title, the first series leftmost. A character is about 6.7 units wide at this size.
std::string legend(const SvgChart& chart, std::span<const Series> series) {
  std::string out;
  double x = chart.width - kRight;
  const std::vector<int> colours = colours_of(series);
  for (size_t i = series.size(); i-- > 0;) {
    if (series[i].faint || series[i].name.empty()) continue;
    x -= 6.7 * double(series[i].name.size()) + 30;
    out += fmt::format(
        "<line x1=\"{:.0f}\" x2=\"{:.0f}\" y1=\"16\" y2=\"16\" stroke=\"var(--c{})\" stroke-width=\"2.5\"/>"
        "<text x=\"{:.0f}\" y=\"20\">{}</text>\n",
        x, x + 16, colours[i], x + 21, html_escape(series[i].name));
  }
  return out;
}

}  // namespace

std::string svg_chart(const SvgChart& chart, std::span<const Series> series) {
  const auto [x_low, x_high] = extent(series, false, chart.log_x);
  auto [y_low, y_high] = extent(series, true, chart.log_y);
  if (chart.from_zero) y_low = std::min(0.0, y_low);
  // A little air above and below; a logarithmic axis gets it as a factor.
  if (!chart.log_y && y_high > y_low) {
    const double air = 0.04 * (y_high - y_low);
    y_high += air;
    if (!chart.from_zero && !(y_low >= 0 && y_low < air)) y_low -= air;
  }
  const Frame frame{chart, Axis(x_low, x_high, chart.log_x, chart.width / 100),
                    Axis(y_low, y_high, chart.log_y, chart.height / 60)};
  std::string out = fmt::format(
      "<svg class=\"esp\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" role=\"img\" "
      "aria-label=\"{}\">{}\n",
      chart.width, chart.height, html_escape(chart.title), kStyle);
  out += fmt::format("<text x=\"14\" y=\"20\"><tspan class=\"t\">{}</tspan><tspan dx=\"8\">{}</tspan></text>",
                     html_escape(chart.title), html_escape(chart.y_label));
  out += legend(chart, series) + grid(frame);
  // Faint lines first, the first series last, so that what matters lies on top.
  const std::vector<int> colours = colours_of(series);
  for (const bool faint : {true, false})
    for (size_t i = series.size(); i-- > 0;)
      if (series[i].faint == faint) out += drawn(frame, thinned(series[i], chart.width), colours[i]);
  if (std::all_of(series.begin(), series.end(), [](const Series& s) { return s.x.empty(); }))
    out += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">nothing was logged</text>", chart.width / 2,
                       chart.height / 2);
  return out + "</svg>\n";
}

std::vector<Series> raw_and_smoothed(const Series& series) {
  Series raw = series, smooth = series;
  raw.faint = true;
  smooth.y = smoothed(series.y, std::clamp(double(series.y.size()) / 40, 5.0, 100.0));
  return {raw, smooth};
}

}  // namespace espalier
