// RunStore: what a run did, in one SQLite file (run.sqlite): metrics by step, events (skipped steps, checkpoints,
// incidents) and samples. Writes are gathered into transactions, so that logging every step costs microseconds; a
// reader (report, dashboard, `sqlite3`) sees the file whole while a run writes it (write-ahead log). What is in it:
//
//   runs    (id, started_s, config, host, status)            a row a start or resume
//   metrics (name, step, value, wall_s, run)                 one value a name and step; NULL is NaN
//   events  (id, step, kind, text, wall_s, run)
//   samples (id, step, prompt, text, wall_s, run)
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace espalier {

struct RunRow {
  int64_t id = 0;
  double started_s = 0;  ///< seconds since the epoch
  std::string config, host, status;
};

struct MetricPoint {
  int64_t step = 0;
  double value = 0, wall_s = 0;
};

struct EventRow {
  int64_t step = 0;
  std::string kind, text;
  double wall_s = 0;
};

struct SampleRow {
  int64_t step = 0;
  std::string prompt, text;
  double wall_s = 0;
};

class RunStore {
 public:
  /// Opens or creates. Errors: kBadData for a file that is no store of ours or damaged, kTimeout for one that another
  /// process holds longer than `wait_ms`, kNoSpace, kIo.
  static RunStore open(const std::string& path, int wait_ms = 5000);
  /// For readers: kNotFound where there is none; nothing is created.
  static RunStore open_existing(const std::string& path, int wait_ms = 5000);
  ~RunStore();
  RunStore(RunStore&&) noexcept;
  RunStore& operator=(RunStore&&) = delete;

  /// Begins a row of `runs` and forgets what earlier runs logged beyond `after_step` (a resume repeats those steps;
  /// -1 forgets all). Status is "running" until set_status; an earlier run that still was becomes "killed". Returns
  /// the id.
  int64_t begin_run(std::string_view config, int64_t after_step = -1);
  void set_status(std::string_view status);

  /// Later values replace earlier ones of the same name and step. From any thread.
  void log_metrics(int64_t step, std::span<const std::pair<std::string_view, double>> values);
  void log_event(int64_t step, std::string_view kind, std::string_view text);
  void log_sample(int64_t step, std::string_view prompt, std::string_view text);
  /// Commits what was gathered; it happens by itself every 256 rows or second of logging, and at the end.
  void flush();

  std::vector<RunRow> runs();
  std::vector<std::string> metric_names();
  /// In order of steps.
  std::vector<MetricPoint> metrics(std::string_view name);
  std::vector<EventRow> events();
  std::vector<SampleRow> samples();

 private:
  struct State;
  explicit RunStore(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace espalier
