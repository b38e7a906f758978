#include "report/terminal_chart.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace espalier {
namespace {

constexpr const char* kColours[] = {"32", "33", "36", "35"};
constexpr std::string_view kAscii = "*o+x";

std::string padded_left(const std::string& text, int width) {
  return std::string(size_t(std::max(0, width - int(text.size()))), ' ') + text;
}

/// The dots of one chart: `cols` x `rows` cells of 2 x 4 (Braille) or 1 x 1 (ASCII) dots.
class Canvas {
 public:
  Canvas(int cols, int rows, bool braille)
      : cols_(cols), rows_(rows), fine_x_(braille ? 2 : 1), fine_y_(braille ? 4 : 1),
        dots_(size_t(cols * rows), 0), owner_(size_t(cols * rows), -1) {}

  void line(double x0, double y0, double x1, double y1, int owner) {
    const int steps =
        int(std::max({1.0, std::abs(x1 - x0) * cols_ * fine_x_, std::abs(y1 - y0) * rows_ * fine_y_})) + 1;
    for (int i = 0; i <= steps; ++i) {
      const double t = double(i) / steps;
      dot(x0 + t * (x1 - x0), y0 + t * (y1 - y0), owner);
    }
  }

  /// x and y in [0, 1], y upwards.
  void dot(double x, double y, int owner) {
    const int fx = std::clamp(int(std::lround(x * (cols_ * fine_x_ - 1))), 0, cols_ * fine_x_ - 1);
    const int fy = std::clamp(int(std::lround((1 - y) * (rows_ * fine_y_ - 1))), 0, rows_ * fine_y_ - 1);
    const auto cell = size_t(fy / fine_y_ * cols_ + fx / fine_x_);
    // Braille numbers its dots by columns of three, with the fourth row added later (Unicode block 2800).
    constexpr int kBits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    dots_[cell] |= kBits[fy % fine_y_][fx % fine_x_];
    owner_[cell] = owner;
  }

  std::string row(int y, bool colour) const {
    std::string text;
    int current = -1;
    for (int x = 0; x < cols_; ++x) {
      const auto cell = size_t(y * cols_ + x);
      if (colour && dots_[cell] && owner_[cell] != current) {
        current = owner_[cell];
        text += fmt::format("\x1b[{}m", kColours[current % 4]);
      }
      if (fine_x_ == 1)
        text += dots_[cell] ? kAscii[size_t(owner_[cell] % 4)] : ' ';
      else if (!dots_[cell])
        text += ' ';
      else
        text += {char(0xE2), char(0xA0 | dots_[cell] >> 6), char(0x80 | (dots_[cell] & 0x3F))};
    }
    return text + (current >= 0 ? "\x1b[0m" : "");
  }

 private:
  int cols_, rows_, fine_x_, fine_y_;
  std::vector<int> dots_, owner_;
};

void draw(Canvas& canvas, const Series& series, const Axis& x, const Axis& y, int owner) {
  bool pen = false;
  double last_x = 0, last_y = 0;
  for (size_t i = 0; i < series.x.size(); ++i) {
    if (!x.holds(series.x[i]) || !y.holds(series.y[i])) {
      pen = false;
      continue;
    }
    const double px = x.place(series.x[i]), py = y.place(series.y[i]);
    if (pen) canvas.line(last_x, last_y, px, py, owner);
    else canvas.dot(px, py, owner);
    last_x = px, last_y = py, pen = true;
  }
}

std::string legend(const TerminalChart& chart, std::span<const Series> series) {
  std::string text = chart.title;
  for (size_t i = 0; i < series.size(); ++i) {
    const std::string mark = chart.utf8 ? "─" : std::string(1, kAscii[i % 4]);
    text += text.empty() ? "" : "   ";
    text += chart.colour ? fmt::format("\x1b[{}m{}{}\x1b[0m {}", kColours[i % 4], mark, mark, series[i].name)
                         : fmt::format("{} {}", mark, series[i].name);
  }
  return text;
}

/// The rule under the chart and the numbers under the rule; numbers that would touch are left out.
std::string x_axis(const TerminalChart& chart, const Axis& x, int label_width, int cols) {
  const int left = label_width + 2;
  std::string numbers(size_t(left + cols + 8), ' '), rule;
  std::vector<bool> ticked(size_t(cols), false);
  int free_from = 0;
  for (const double tick : x.ticks()) {
    const int at = std::clamp(int(std::lround(x.place(tick) * (cols - 1))), 0, cols - 1);
    const std::string label = x.label(tick);
    const int begin = std::max(0, left + at - int(label.size()) / 2);
    if (begin < free_from) continue;
    ticked[size_t(at)] = true;
    numbers.replace(size_t(begin), label.size(), label);
    free_from = begin + int(label.size()) + 1;
  }
  for (const bool tick : ticked) rule += chart.utf8 ? (tick ? "┬" : "─") : (tick ? "+" : "-");
  numbers.resize(numbers.find_last_not_of(' ') + 1);
  return std::string(size_t(label_width), ' ') + (chart.utf8 ? " └" : " +") + rule + "\n" + numbers +
         (chart.x_label.empty() ? "" : "  " + chart.x_label) + "\n";
}

}  // namespace

std::string terminal_chart(const TerminalChart& chart, std::span<const Series> series) {
  const auto [x_low, x_high] = extent(series, false, chart.log_x);
  const auto [y_low, y_high] = extent(series, true, chart.log_y);
  const Axis x(x_low, x_high, chart.log_x, chart.width / 14), y(y_low, y_high, chart.log_y, chart.height / 3);
  const int rows = std::max(3, chart.height - 3);
  auto labels = std::vector<std::string>(size_t(rows));
  size_t label_width = 1;
  for (const double tick : y.ticks()) {
    const auto row = std::clamp<long>(std::lround((1 - y.place(tick)) * (rows - 1)), 0, rows - 1);
    labels[size_t(row)] = y.label(tick);
    label_width = std::max(label_width, y.label(tick).size());
  }
  const int cols = std::max(10, chart.width - int(label_width) - 2);

  Canvas canvas(cols, rows, chart.utf8);
  for (size_t i = series.size(); i-- > 0;) draw(canvas, series[i], x, y, int(i));

  std::string text = legend(chart, series) + "\n";
  for (int row = 0; row < rows; ++row) {
    const std::string& label = labels[size_t(row)];
    std::string line = canvas.row(row, chart.colour);
    line.resize(line.find_last_not_of(' ') + 1);
    text += padded_left(label, int(label_width)) + (!chart.utf8 ? " |" : label.empty() ? " │" : " ┤") + line + "\n";
  }
  return text + x_axis(chart, x, int(label_width), cols);
}

}  // namespace espalier
