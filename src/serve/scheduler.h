// The scheduler: one thread that runs the model for all who ask. Any thread submits and cancels; the generator
// (engine/generator.h) shares its passes among the requests that are live, and callbacks run on the scheduler's thread
// between passes, so they must not wait.
#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "engine/generator.h"

namespace espalier {

struct Job {
  GenerateRequest request;  ///< its on_token too runs on the scheduler's thread
  std::function<void(GenerateResult result)> on_done;
  /// The pass failed (not the request: submit() says what is wrong with that).
  std::function<void(std::exception_ptr failure)> on_failure;
};

struct SchedulerOptions {
  GeneratorOptions generator;
  int64_t max_waiting = 256;  ///< requests beyond those in the batch; more are refused
};

struct SchedulerCounters {
  int64_t waiting = 0, running = 0;
  int64_t finished = 0, cancelled = 0, failed = 0;  ///< requests
  int64_t prompt_tokens = 0, cached_tokens = 0, generated_tokens = 0;
  double prefill_s = 0, decode_s = 0;  ///< summed over requests
  SpeculationCounters speculation;
};

class Scheduler {
 public:
  Scheduler(Context& ctx, Decoder& model, const Tokenizer* tokenizer, const SchedulerOptions& options = {});
  /// Cancels what is left.
  ~Scheduler();

  /// The request's number. Throws as Generator::check, and Error kBusy where too many wait or the scheduler drains.
  uint64_t submit(Job job);
  /// Runs `work` on the scheduler's thread between two passes, where the model is free for it. What it throws is its
  /// own affair to catch. Throws Error kBusy as submit().
  void post(std::function<void()> work);
  /// Ends a request soon, on_done saying kCancelled with what there is; nothing where it is over.
  void cancel(uint64_t number);
  /// Takes no more requests; true once all are done, false after so many seconds.
  bool drain(double seconds);

  SchedulerCounters counters() const;

 private:
  struct Running {
    uint64_t number;
    Job job;
  };
  void run();
  void take_orders();
  void do_some_work();
  void check_open(size_t waiting) const;
  void start(uint64_t number, Job job);
  void finish();
  void finish_one(Running job, GenerateResult result);
  void fail_all(const std::exception_ptr& failure);

  SchedulerOptions options_;
  Generator generator_;  // the thread's, but for check()
  std::map<size_t, Running> running_;  // by the generator's number; the thread's

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<uint64_t, Job>> waiting_;
  std::deque<std::function<void()>> work_;
  std::set<uint64_t> cancelled_;
  SchedulerCounters counters_;
  uint64_t submitted_ = 0;
  bool draining_ = false, stop_ = false;
  std::thread thread_;
};

}  // namespace espalier
