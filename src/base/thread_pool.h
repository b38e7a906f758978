// The thread pool: parallel_for over tasks whose number depends on the work alone, never on the threads, so that
// results are the same bits for any number of threads.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "base/function_ref.h"

namespace espalier {

/// Processors this process may run on (affinity respected).
int available_cores();

/// A thread that runs fn. Throws Error kNoSpace where the system gives no more of them.
std::thread start_thread(std::function<void()> fn);

class ThreadPool {
 public:
  /// `threads` counts the calling thread too; 0 means one per available core. Throws as start_thread does.
  explicit ThreadPool(int threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const;

  /// Runs fn(task, worker) for task in [0, tasks), worker in [0, size()), each task once, in any order, and returns
  /// when all are done. The caller takes part. The first exception of a task is rethrown here. Allocates nothing.
  /// One caller at a time; a nested call runs its tasks in order on the calling worker.
  void parallel_for(int64_t tasks, FunctionRef<void(int64_t task, int worker)> fn);

  /// Called by the calling thread between its tasks (message progress, interrupts); may be empty.
  std::function<void()> poll;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Cuts [0, n) into pieces of `grain` and runs fn(begin, end) on them in parallel.
template <class F>
void parallel_ranges(ThreadPool& pool, int64_t n, int64_t grain, F&& fn) {
  const int64_t pieces = (n + grain - 1) / grain;
  pool.parallel_for(pieces, [&](int64_t piece, int) {
    const int64_t begin = piece * grain, end = begin + grain < n ? begin + grain : n;
    fn(begin, end);
  });
}

}  // namespace espalier
