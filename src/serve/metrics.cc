#include "serve/metrics.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace espalier {
namespace {

bool is_metric_name(const std::string& name, bool of_label) {
  const auto fits = [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= '0' && c <= '9') ||
           (c == ':' && !of_label);
  };
  return !name.empty() && !(name[0] >= '0' && name[0] <= '9') && std::ranges::all_of(name, fits);
}

std::string escaped(const std::string& text, bool quotes) {
  std::string result;
  for (const char c : text) {
    if (c == '\\') result += "\\\\";
    else if (c == '\n') result += "\\n";
    else if (c == '"' && quotes) result += "\\\"";
    else result += c;
  }
  return result;
}

std::string label_text(const MetricsRegistry::Labels& labels) {
  std::string text;
  for (const auto& [name, value] : labels) {
    ESP_CHECK(is_metric_name(name, true), "'{}' is no name for a label", name);
    text += fmt::format("{}{}=\"{}\"", text.empty() ? "" : ",", name, escaped(value, true));
  }
  return text;
}

std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

/// name{labels,more} value
std::string line(const std::string& name, const std::string& labels, const std::string& more, double value) {
  const std::string both = labels + (labels.empty() || more.empty() ? "" : ",") + more;
  return fmt::format("{}{}{}{} {}\n", name, both.empty() ? "" : "{", both, both.empty() ? "" : "}",
                     number_text(value));
}

std::string histogram_text(const std::string& name, const std::string& labels, const Histogram::Snapshot& snapshot) {
  std::string text;
  for (size_t i = 0; i < snapshot.counts.size(); ++i) {
    const std::string bound = i < snapshot.bounds.size() ? number_text(snapshot.bounds[i]) : "+Inf";
    text += line(name + "_bucket", labels, fmt::format("le=\"{}\"", bound), double(snapshot.counts[i]));
  }
  text += line(name + "_sum", labels, "", snapshot.sum);
  return text + line(name + "_count", labels, "", double(snapshot.counts.back()));
}

}  // namespace

Histogram::Histogram(std::vector<double> bounds) : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {
  ESP_CHECK(std::ranges::is_sorted(bounds_, std::less_equal<>()), "the bounds of a histogram do not rise");
}

void Histogram::observe(double value) {
  const auto bucket = size_t(std::ranges::lower_bound(bounds_, value) - bounds_.begin());
  counts_[bucket].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(value, std::memory_order_relaxed);
}

Histogram::Snapshot Histogram::snapshot() const {
  Snapshot snapshot{.bounds = bounds_};
  int64_t total = 0;
  for (const std::atomic<int64_t>& count : counts_)
    snapshot.counts.push_back(total += count.load(std::memory_order_relaxed));
  snapshot.sum = sum_.load(std::memory_order_relaxed);
  return snapshot;
}

std::vector<double> exponential_bounds(double first, double factor, int count) {
  std::vector<double> bounds;
  for (int i = 0; i < count; ++i) bounds.push_back(i == 0 ? first : bounds.back() * factor);
  return bounds;
}

/// Finds or makes. The lock is held by the caller.
MetricsRegistry::Metric& MetricsRegistry::metric(const std::string& name, const std::string& help, Kind kind,
                                                 const Labels& labels) {
  ESP_CHECK(is_metric_name(name, false), "'{}' is no name for a metric", name);
  auto family = std::ranges::find(families_, name, &Family::name);
  if (family == families_.end()) family = families_.insert(family, Family{name, help, kind, {}});
  ESP_CHECK(family->kind == kind, "the metric '{}' is of another kind", name);
  const std::string text = label_text(labels);
  const auto found = std::ranges::find(family->metrics, text, &Metric::labels);
  return found != family->metrics.end() ? *found : family->metrics.emplace_back(Metric{.labels = text});
}

Counter& MetricsRegistry::counter(const std::string& name, const std::string& help, const Labels& labels) {
  const std::lock_guard lock(mutex_);
  Metric& found = metric(name, help, Kind::kCounter, labels);
  if (!found.counter) found.counter = std::make_unique<Counter>();
  return *found.counter;
}

Gauge& MetricsRegistry::gauge(const std::string& name, const std::string& help, const Labels& labels) {
  const std::lock_guard lock(mutex_);
  Metric& found = metric(name, help, Kind::kGauge, labels);
  if (!found.gauge) found.gauge = std::make_unique<Gauge>();
  return *found.gauge;
}

Histogram& MetricsRegistry::histogram(const std::string& name, const std::string& help, std::vector<double> bounds,
                                      const Labels& labels) {
  const std::lock_guard lock(mutex_);
  Metric& found = metric(name, help, Kind::kHistogram, labels);
  if (!found.histogram) found.histogram = std::make_unique<Histogram>(std::move(bounds));
  return *found.histogram;
}

void MetricsRegistry::gauge_of(const std::string& name, const std::string& help, std::function<double()> value,
                               const Labels& labels) {
  const std::lock_guard lock(mutex_);
  metric(name, help, Kind::kGauge, labels).value = std::move(value);
}

void MetricsRegistry::counter_of(const std::string& name, const std::string& help, std::function<double()> value,
                                 const Labels& labels) {
  const std::lock_guard lock(mutex_);
  metric(name, help, Kind::kCounter, labels).value = std::move(value);
}

std::string MetricsRegistry::text() const {
  static constexpr const char* kKinds[] = {"counter", "gauge", "histogram"};
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const Family& family : families_) {
    text += fmt::format("# HELP {} {}\n# TYPE {} {}\n", family.name, escaped(family.help, false), family.name,
                        kKinds[size_t(family.kind)]);
    for (const Metric& one : family.metrics) {
      if (one.histogram) text += histogram_text(family.name, one.labels, one.histogram->snapshot());
      else if (one.value) text += line(family.name, one.labels, "", one.value());
      else text += line(family.name, one.labels, "", one.counter ? one.counter->value() : one.gauge->value());
    }
  }
  return text;
}

}  // namespace espalier
