#include "base/thread_pool.h"

#include <sched.h>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <vector>

#include "base/error.h"

namespace espalier {

int available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

std::thread start_thread(std::function<void()> fn) {
  try {
    return std::thread(std::move(fn));
  } catch (const std::system_error& e) {  // the standard library's edge: its exception becomes ours
    throw error(Code::kNoSpace,
                "starting a thread: {}; use fewer --threads, or allow more threads (ulimit -u) or memory (ulimit -v)",
                e.code().message());
  }
}

namespace {
// Kernels follow each other within microseconds and end unevenly, and waking a sleeper takes tens of microseconds (in a
// virtual machine more), so a worker spins a little before it sleeps: about half a millisecond, short enough not to
// take a core from the loader or from another process.
constexpr int kSpins = 20000;

thread_local const void* inside_pool = nullptr;
thread_local int inside_worker = 0;

inline void relax() { __builtin_ia32_pause(); }
}  // namespace

struct ThreadPool::State {
  // A job is published by bumping `epoch`; workers check in through `active` so that the job's data outlives them.
  std::mutex mutex;
  std::condition_variable wake, finished;
  std::atomic<uint64_t> epoch{0};
  std::atomic<int> active{0};
  std::atomic<int64_t> next{0};
  std::atomic<int> sleepers{0};
  int64_t tasks = 0;
  const FunctionRef<void(int64_t, int)>* fn = nullptr;
  std::exception_ptr failure;
  bool stop = false;
  std::vector<std::thread> threads;

  ~State() {
    stop = true;
    publish();
    for (std::thread& thread : threads) thread.join();
  }

  void run_tasks(int worker, const std::function<void()>* poll) {
    try {
      for (int64_t task; (task = next.fetch_add(1, std::memory_order_relaxed)) < tasks;) {
        (*fn)(task, worker);
        if (poll && *poll) (*poll)();
      }
    } catch (...) {  // a thread's edge: carried to the join in parallel_for
      std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
      next.store(tasks, std::memory_order_relaxed);
    }
  }

  void work(int worker, const void* pool) {
    inside_pool = pool;
    inside_worker = worker;
    uint64_t seen = 0;
    while (true) {
      for (int i = 0; i < kSpins && epoch.load(std::memory_order_acquire) == seen; ++i) relax();
      if (epoch.load(std::memory_order_acquire) == seen) {
        std::unique_lock lock(mutex);
        sleepers.fetch_add(1);
        wake.wait(lock, [&] { return epoch.load(std::memory_order_acquire) != seen; });
        sleepers.fetch_sub(1);
      }
      seen = epoch.load(std::memory_order_acquire);
      if (stop) return;
      run_tasks(worker, nullptr);
      if (active.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        std::lock_guard lock(mutex);
        finished.notify_one();
      }
    }
  }

  void publish() {
    {
      std::lock_guard lock(mutex);
      epoch.fetch_add(1, std::memory_order_release);
    }
    if (sleepers.load() > 0) wake.notify_all();
  }
};

ThreadPool::ThreadPool(int threads) : state_(std::make_unique<State>()) {
  const int count = threads > 0 ? threads : available_cores();
  for (int worker = 1; worker < count; ++worker)
    state_->threads.push_back(start_thread([this, state = state_.get(), worker] { state->work(worker, this); }));
}

ThreadPool::~ThreadPool() = default;

int ThreadPool::size() const { return int(state_->threads.size()) + 1; }

void ThreadPool::parallel_for(int64_t tasks, FunctionRef<void(int64_t, int)> fn) {
  State& s = *state_;
  if (inside_pool == this) {
    for (int64_t task = 0; task < tasks; ++task) fn(task, inside_worker);
    return;
  }
  if (s.threads.empty() || tasks <= 1) {
    for (int64_t task = 0; task < tasks; ++task) {
      fn(task, 0);
      if (poll) poll();
    }
    return;
  }
  s.tasks = tasks;
  s.fn = &fn;
  s.failure = nullptr;
  s.next.store(0, std::memory_order_relaxed);
  s.active.store(int(s.threads.size()), std::memory_order_relaxed);
  s.publish();
  inside_pool = this;
  inside_worker = 0;
  s.run_tasks(0, &poll);
  inside_pool = nullptr;
  for (int i = 0; i < kSpins && s.active.load(std::memory_order_acquire) > 0; ++i) relax();
  if (s.active.load(std::memory_order_acquire) > 0) {
    std::unique_lock lock(s.mutex);
    s.finished.wait(lock, [&] { return s.active.load(std::memory_order_acquire) == 0; });
  }
  if (s.failure) std::rethrow_exception(s.failure);
}

}  // namespace espalier
