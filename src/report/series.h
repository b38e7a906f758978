// Series and axes: what charts in the terminal and on a page have in common.
#pragma once
#include <span>
#include <string>
#include <vector>

namespace espalier {

/// A line: points in order of x. A NaN in y is a gap.
struct Series {
  std::string name;
  std::vector<double> x, y;
  bool faint = false;  ///< drawn pale and left out of the legend: the raw values behind the line that follows
  bool dots = false;   ///< marks without a line, for what happens now and then
};

/// Moving average over about the last `window` values, or the last tenth where that is shorter: a steep start is not
/// smeared. Each value's weight falls exponentially with age; the first value is itself. Gaps stay gaps and do not
/// spoil what follows.
std::vector<double> smoothed(std::span<const double> y, double window);

/// At most about 2 * buckets points that look alike: the least and the greatest value of each bucket, in order.
Series thinned(const Series& series, int buckets);

/// A range with ticks at round numbers (1, 2, 5 times a power of ten), linear or logarithmic.
class Axis {
 public:
  /// Covers [low, high]; about `wanted` ticks. A logarithmic axis of values that are not positive becomes linear.
  Axis(double low, double high, bool logarithmic, int wanted);

  /// 0 at the low end, 1 at the high end.
  double place(double value) const;
  bool holds(double value) const;
  const std::vector<double>& ticks() const { return ticks_; }
  /// "0.25", "1200", "15k", "3e-4", with the digits that tell the ticks apart and one unit for all.
  std::string label(double tick) const;

 private:
  double low_, high_, step_ = 0;  ///< step_: 0 where ticks are not evenly spaced
  bool log_;
  std::vector<double> ticks_;
};

/// The finite extent of a coordinate over all series: {low, high}, {0, 1} when there is nothing.
std::pair<double, double> extent(std::span<const Series> series, bool of_y, bool positive_only);

}  // namespace espalier
