// Metrics for Prometheus: counters, gauges and histograms that any thread changes without waiting, and their text.
// A metric is made once, by name and labels, and lives as long as its registry.
#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace espalier {

/// Only grows.
class Counter {
 public:
  void add(double amount = 1) { value_.fetch_add(amount, std::memory_order_relaxed); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

class Gauge {
 public:
  void set(double value) { value_.store(value, std::memory_order_relaxed); }
  void add(double amount) { value_.fetch_add(amount, std::memory_order_relaxed); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

/// Counts observations up to each bound, and their sum.
class Histogram {
 public:
  /// `bounds` rise; what is above the last counts as +Inf.
  explicit Histogram(std::vector<double> bounds);
  void observe(double value);

  struct Snapshot {
    std::vector<double> bounds;
    std::vector<int64_t> counts;  ///< cumulative; one more than bounds
    double sum = 0;
  };
  Snapshot snapshot() const;

 private:
  const std::vector<double> bounds_;
  std::deque<std::atomic<int64_t>> counts_;
  std::atomic<double> sum_{0};
};

/// Bounds from `first` on, each `factor` times the one before.
std::vector<double> exponential_bounds(double first, double factor, int count);

class MetricsRegistry {
 public:
  using Labels = std::vector<std::pair<std::string, std::string>>;

  // The metric of that name and labels; the same one when it is asked for again. Names and label names must be what
  // Prometheus accepts, and one name has one kind: ESP_CHECK.
  Counter& counter(const std::string& name, const std::string& help, const Labels& labels = {});
  Gauge& gauge(const std::string& name, const std::string& help, const Labels& labels = {});
  Histogram& histogram(const std::string& name, const std::string& help, std::vector<double> bounds,
                       const Labels& labels = {});
  /// A gauge whose value is asked for when the text is made, from the thread that makes it.
  void gauge_of(const std::string& name, const std::string& help, std::function<double()> value,
                const Labels& labels = {});
  /// The same for a count that somebody else keeps.
  void counter_of(const std::string& name, const std::string& help, std::function<double()> value,
                  const Labels& labels = {});

  /// Text format 0.0.4, in the order in which the names were first used.
  std::string text() const;
  static constexpr const char* kContentType = "text/plain; version=0.0.4; charset=utf-8";

 private:
  enum class Kind { kCounter, kGauge, kHistogram };
  struct Metric {
    std::string labels;  // as text: a="b",c="d"
    std::function<double()> value;
    std::unique_ptr<Counter> counter;
    std::unique_ptr<Gauge> gauge;
    std::unique_ptr<Histogram> histogram;
  };
  struct Family {
    std::string name, help;
    Kind kind;
    std::deque<Metric> metrics;
  };
  Metric& metric(const std::string& name, const std::string& help, Kind kind, const Labels& labels);

  mutable std::mutex mutex_;
  std::deque<Family> families_;
};

}  // namespace espalier
