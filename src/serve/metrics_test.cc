// Run under the thread sanitizer too (test.sh).
#include "serve/metrics.h"

#include <gtest/gtest.h>

#include <limits>
#include <thread>

namespace espalier {
namespace {

TEST(ThreadedMetrics, Text) {
  MetricsRegistry registry;
  registry.counter("requests_total", "Requests\nserved.", {{"path", "/a\"b\\"}}).add(2);
  registry.counter("requests_total", "Requests served.", {{"path", "/b"}}).add(0.5);
  registry.gauge("slots", "Busy slots.").set(3);
  registry.gauge("slots", "Busy slots.").add(-1);
  registry.gauge_of("queue", "Waiting.", [] { return std::numeric_limits<double>::infinity(); });
  registry.counter_of("accepted_total", "Connections.", [] { return 1e15; });
  Histogram& histogram = registry.histogram("wait_seconds", "Time.", {0.1, 1}, {{"kind", "x"}});
  for (const double value : {0.05, 0.1, 0.5, 7.0}) histogram.observe(value);
  EXPECT_EQ(registry.text(),
            "# HELP requests_total Requests\\nserved.\n# TYPE requests_total counter\n"
            "requests_total{path=\"/a\\\"b\\\\\"} 2\nrequests_total{path=\"/b\"} 0.5\n"
            "# HELP slots Busy slots.\n# TYPE slots gauge\nslots 2\n"
            "# HELP queue Waiting.\n# TYPE queue gauge\nqueue +Inf\n"
            "# HELP accepted_total Connections.\n# TYPE accepted_total counter\naccepted_total 1000000000000000\n"
            "# HELP wait_seconds Time.\n# TYPE wait_seconds histogram\n"
            "wait_seconds_bucket{kind=\"x\",le=\"0.1\"} 2\nwait_seconds_bucket{kind=\"x\",le=\"1\"} 3\n"
            "wait_seconds_bucket{kind=\"x\",le=\"+Inf\"} 4\nwait_seconds_sum{kind=\"x\"} 7.65\n"
            "wait_seconds_count{kind=\"x\"} 4\n");
}

TEST(ThreadedMetrics, ManyThreadsCountTogether) {
  MetricsRegistry registry;
  Counter& counter = registry.counter("a_total", "A.");
  Histogram& histogram = registry.histogram("b", "B.", exponential_bounds(1, 2, 3));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        counter.add();
        histogram.observe(i % 5);
        registry.gauge("c", "C.").add(1);
        if (i % 100 == 0) registry.text();
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter.value(), 4000);
  const Histogram::Snapshot snapshot = histogram.snapshot();
  EXPECT_EQ(snapshot.bounds, (std::vector<double>{1, 2, 4}));
  EXPECT_EQ(snapshot.counts, (std::vector<int64_t>{1600, 2400, 4000, 4000}));
  EXPECT_EQ(snapshot.sum, 8000);
  EXPECT_EQ(registry.gauge("c", "C.").value(), 4000);
}

TEST(MetricsDeathTest, NamesAndKinds) {
  MetricsRegistry registry;
  registry.counter("a", "A.");
  EXPECT_DEATH(registry.gauge("a", "A."), "another kind");
  EXPECT_DEATH(registry.counter("a b", "A."), "no name for a metric");
  EXPECT_DEATH(registry.counter("b", "B.", {{"l:", "x"}}), "no name for a label");
}

}  // namespace
}  // namespace espalier
