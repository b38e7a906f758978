#include "serve/scheduler.h"

#include <chrono>
#include <utility>
#include <vector>

#include "base/error.h"

namespace espalier {

Scheduler::Scheduler(Context& ctx, Decoder& model, const Tokenizer* tokenizer, const SchedulerOptions& options)
    : options_(options), generator_(ctx, model, tokenizer, options.generator),
      thread_(start_thread([this] { run(); })) {}

Scheduler::~Scheduler() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

uint64_t Scheduler::submit(Job job) {
  generator_.check(job.request);
  std::lock_guard lock(mutex_);
  check_open(waiting_.size());
  waiting_.emplace_back(submitted_, std::move(job));
  ++counters_.waiting;
  changed_.notify_all();
  return submitted_++;
}

void Scheduler::check_open(size_t waiting) const {
  if (draining_ || stop_) throw Error(Code::kBusy, "taking a request: the server is shutting down; ask another one");
  if (int64_t(waiting) >= options_.max_waiting)
    throw error(Code::kBusy, "taking a request: {} are waiting already; try again in a while", waiting);
}

void Scheduler::post(std::function<void()> work) {
  std::lock_guard lock(mutex_);
  check_open(work_.size());
  work_.push_back(std::move(work));
  changed_.notify_all();
}

// One piece between two passes, so that answers that run do not stand still for many.
void Scheduler::do_some_work() {
  std::function<void()> work;
  {
    std::lock_guard lock(mutex_);
    if (work_.empty()) return;
    work = std::move(work_.front());
    work_.pop_front();
  }
  work();
  changed_.notify_all();
}

void Scheduler::cancel(uint64_t number) {
  std::lock_guard lock(mutex_);
  cancelled_.insert(number);
  changed_.notify_all();
}

bool Scheduler::drain(double seconds) {
  std::unique_lock lock(mutex_);
  draining_ = true;
  changed_.notify_all();
  return changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                           [this] { return work_.empty() && counters_.waiting == 0 && counters_.running == 0; });
}

SchedulerCounters Scheduler::counters() const {
  std::lock_guard lock(mutex_);
  return counters_;
}

void Scheduler::run() {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stop_ || !waiting_.empty() || !running_.empty() || !work_.empty(); });
      if (stop_) break;
    }
    try {
      take_orders();
      do_some_work();
      generator_.step();
      finish();
    } catch (...) {  // a thread's edge: those who wait are told
      fail_all(std::current_exception());
    }
  }
  fail_all(std::make_exception_ptr(Error(Code::kInterrupted, "generating: the server has stopped")));
}

// What came in since the last pass.
void Scheduler::take_orders() {
  std::vector<std::pair<uint64_t, Job>> jobs;
  std::set<uint64_t> cancelled;
  {
    std::lock_guard lock(mutex_);
    const auto room = int64_t(running_.size());
    while (!waiting_.empty() && room + int64_t(jobs.size()) < options_.generator.max_batch) {
      jobs.push_back(std::move(waiting_.front()));
      waiting_.pop_front();
    }
    // Those that wait for a place go at once, whatever is running.
    for (auto at = waiting_.begin(); at != waiting_.end();) {
      const bool gone = cancelled_.contains(at->first);
      if (gone) jobs.push_back(std::move(*at));
      at = gone ? waiting_.erase(at) : at + 1;
    }
    counters_.waiting -= int64_t(jobs.size());
    counters_.running += int64_t(jobs.size());
    cancelled = std::exchange(cancelled_, {});
  }
  for (auto& [number, job] : jobs) start(number, std::move(job));
  for (const auto& [at, running] : running_)
    if (cancelled.contains(running.number)) generator_.cancel(at);
}

void Scheduler::start(uint64_t number, Job job) {
  const size_t at = generator_.submit(std::move(job.request));
  running_.emplace(at, Running{number, std::move(job)});
}

void Scheduler::finish() {
  for (auto at = running_.begin(); at != running_.end();) {
    auto result = generator_.take(at->first);
    if (!result) {
      ++at;
      continue;
    }
    Running job = std::move(at->second);
    at = running_.erase(at);
    finish_one(std::move(job), *std::move(result));
  }
}

void Scheduler::finish_one(Running running, GenerateResult result) {
  {
    std::lock_guard lock(mutex_);
    --counters_.running;
    ++(result.finish_reason == FinishReason::kCancelled ? counters_.cancelled : counters_.finished);
    counters_.prompt_tokens += result.prompt_tokens;
    counters_.cached_tokens += result.cached_tokens;
    counters_.generated_tokens += int64_t(result.ids.size());
    counters_.prefill_s += result.prefill_s;
    counters_.decode_s += result.decode_s;
    counters_.speculation = generator_.speculation().counters();
  }
  changed_.notify_all();
  if (running.job.on_done) running.job.on_done(std::move(result));
}

void Scheduler::fail_all(const std::exception_ptr& failure) {
  generator_.forget();
  std::vector<Job> failed;
  for (auto& [at, running] : std::exchange(running_, {})) failed.push_back(std::move(running.job));
  {
    std::lock_guard lock(mutex_);
    for (auto& [number, job] : waiting_)
      if (stop_) failed.push_back(std::move(job));
    if (stop_) waiting_.clear();
    counters_.failed += int64_t(failed.size());
    counters_.running = 0;
    counters_.waiting = int64_t(waiting_.size());
  }
  changed_.notify_all();
  for (const Job& job : failed)
    if (job.on_failure) job.on_failure(failure);
}

}  // namespace espalier
