#include "report/series.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/core.h>

#include "base/check.h"

namespace espalier {

std::vector<double> smoothed(std::span<const double> y, double window) {
  std::vector<double> out;
  out.reserve(y.size());
  double mean = 0, seen = 0;
  for (const double value : y) {
    if (!std::isfinite(value)) {
      out.push_back(std::numeric_limits<double>::quiet_NaN());
      continue;
    }
    mean += (value - mean) / std::clamp(0.1 * seen++, 1.0, std::max(1.0, window));
    out.push_back(mean);
  }
  return out;
}

Series thinned(const Series& series, int buckets) {
  const size_t n = series.x.size();
  ESP_CHECK(series.y.size() == n && buckets > 0, "{} x, {} y, {} buckets", n, series.y.size(), buckets);
  if (n <= 2 * size_t(buckets)) return series;
  Series out{series.name, {}, {}, series.faint, series.dots};
  const auto keep = [&](size_t i) {
    out.x.push_back(series.x[i]);
    out.y.push_back(series.y[i]);
  };
  for (int bucket = 0; bucket < buckets; ++bucket) {
    const size_t begin = n * size_t(bucket) / size_t(buckets), end = n * size_t(bucket + 1) / size_t(buckets);
    size_t least = begin, greatest = begin;
    for (size_t i = begin; i < end; ++i) {
      if (!std::isfinite(series.y[i])) continue;
      if (!(series.y[i] >= series.y[least])) least = i;
      if (!(series.y[i] <= series.y[greatest])) greatest = i;
    }
    keep(std::min(least, greatest));
    if (least != greatest) keep(std::max(least, greatest));
  }
  return out;
}

namespace {

double round_step(double span, int wanted) {
  const double rough = span / std::max(wanted, 1), power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (rough <= factor * power * 1.0001) return factor * power;
  return 10 * power;
}

}  // namespace

Axis::Axis(double low, double high, bool logarithmic, int wanted)
    : low_(low), high_(high), log_(logarithmic && low > 0) {
  if (!(high_ > low_)) {  // one value: a little room around it
    const double room = low_ == 0 ? 1 : std::abs(low_) * 0.1;
    low_ -= room;
    high_ = low_ + 2 * room;
  }
  if (log_ && high_ / low_ >= 8) {
    const double decades = std::log10(high_ / low_);
    const auto begin = int(std::floor(std::log10(low_))), end = int(std::ceil(std::log10(high_)));
    const int stride = std::max(1, int(std::ceil((end - begin) / std::max(1.0, double(wanted)))));
    for (int power = begin; power <= end; power += stride)
      for (const double factor : {1.0, 2.0, 5.0}) {
        const double tick = factor * std::pow(10, power);
        const bool fits = factor == 1 || decades * 3 <= wanted + 1;
        if (fits && tick >= low_ * 0.9999 && tick <= high_ * 1.0001) ticks_.push_back(tick);
      }
    if (ticks_.size() >= 2) return;
    ticks_.clear();
  }
  step_ = round_step(high_ - low_, wanted);
  for (double i = std::ceil(low_ / step_ - 1e-6); i * step_ <= high_ + step_ * 1e-6; ++i) ticks_.push_back(i * step_);
}

double Axis::place(double value) const {
  if (log_) return std::log(value / low_) / std::log(high_ / low_);
  return (value - low_) / (high_ - low_);
}

bool Axis::holds(double value) const { return std::isfinite(value) && (!log_ || value > 0); }

std::string Axis::label(double tick) const {
  const double size = std::abs(tick);
  if (size < 1e-12) return "0";
  if (size < 1e-3) {
    const auto power = int(std::floor(std::log10(size) + 1e-9));
    return fmt::format("{:.3g}e{}", tick / std::pow(10, power), power);
  }
  // Up to four digits are read at a glance; beyond, the largest tick chooses the unit.
  const double largest = step_ == 0 ? size : std::max(std::abs(ticks_.front()), std::abs(ticks_.back()));
  constexpr const char* kUnits[] = {"", "k", "M", "B", "T"};
  int unit = 0;
  double scale = 1;
  if (largest >= (step_ == 0 ? 999.9999 : 9999.999))
    for (; largest * scale >= 999.9999 && unit < 4; ++unit) scale /= 1000;
  if (step_ == 0) return fmt::format("{:.3g}{}", tick * scale, kUnits[unit]);
  const int digits = std::clamp(int(std::ceil(-std::log10(step_ * scale) - 1e-6)), 0, 6);
  return fmt::format("{:.{}f}{}", tick * scale, digits, kUnits[unit]);
}

std::pair<double, double> extent(std::span<const Series> series, bool of_y, bool positive_only) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const Series& s : series)
    for (const double value : of_y ? s.y : s.x) {
      if (!std::isfinite(value) || (positive_only && value <= 0)) continue;
      low = std::min(low, value);
      high = std::max(high, value);
    }
  if (!(low <= high)) return {0, 1};
  return {low, high};
}

}  // namespace espalier
