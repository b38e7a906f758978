// Run under the thread sanitizer too (test.sh).
#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <new>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/error.h"

// Counts allocations of this program, so that "allocates nothing" is a test and not a claim. Not inlined: the compiler
// would see new beside free and warn of a mismatch.
static std::atomic<int64_t> allocations{0};
[[gnu::noinline]] void* operator new(size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* p = std::malloc(bytes)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace espalier {
namespace {

TEST(ThreadPool, EachTaskRunsOnceOnAKnownWorker) {
  for (int threads = 1; threads <= 8; ++threads) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.size(), threads);
    for (const int64_t tasks : {0, 1, 2, 3, 7, 64, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(tasks));
      std::atomic<bool> known{true};
      pool.parallel_for(tasks, [&](int64_t task, int worker) {
        runs[size_t(task)].fetch_add(1);
        if (worker < 0 || worker >= threads) known = false;
      });
      for (const auto& count : runs) ASSERT_EQ(count.load(), 1);
      EXPECT_TRUE(known);
    }
  }
}

TEST(ThreadPool, ZeroThreadsMeansOneACore) { EXPECT_EQ(ThreadPool(0).size(), available_cores()); }

TEST(ThreadPool, ManySmallJobs) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    std::vector<int64_t> sums(16, 0);
    for (int job = 0; job < 5000; ++job)
      pool.parallel_for(16, [&](int64_t task, int) { sums[size_t(task)] += job; });
    for (const int64_t sum : sums) ASSERT_EQ(sum, int64_t{5000} * 4999 / 2);
  }
}

TEST(ThreadPool, JobsAfterAPauseWakeSleepingWorkers) {
  ThreadPool pool(4);
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::atomic<int> count{0};
    pool.parallel_for(100, [&](int64_t, int) { count.fetch_add(1); });
    ASSERT_EQ(count.load(), 100);
  }
}

TEST(ThreadPool, TheFirstExceptionReachesTheCallerAndThePoolGoesOn) {
  for (const int threads : {1, 2, 8}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 50; ++round) {
      try {
        pool.parallel_for(64, [&](int64_t task, int) {
          if (task % 7 == 3) throw error(Code::kIo, "task {}", task);
        });
        FAIL() << "no exception";
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), Code::kIo);
      }
      std::atomic<int> count{0};
      pool.parallel_for(64, [&](int64_t, int) { count.fetch_add(1); });
      ASSERT_EQ(count.load(), 64);
    }
  }
}

TEST(ThreadPool, NestedCallsRunInOrderOnTheirWorker) {
  ThreadPool pool(4);
  std::vector<std::vector<int64_t>> order(8);
  std::atomic<bool> same{true};
  pool.parallel_for(8, [&](int64_t outer, int worker) {
    pool.parallel_for(5, [&](int64_t inner, int inner_worker) {
      if (inner_worker != worker) same = false;
      order[size_t(outer)].push_back(inner);
    });
  });
  EXPECT_TRUE(same);
  for (const auto& list : order) EXPECT_EQ(list, (std::vector<int64_t>{0, 1, 2, 3, 4}));
}

TEST(ThreadPool, APoolWithinAnotherPoolsTaskIsItsOwn) {
  ThreadPool outer(2), inner(3);
  std::atomic<int> count{0};
  outer.parallel_for(1, [&](int64_t, int) { inner.parallel_for(50, [&](int64_t, int) { count.fetch_add(1); }); });
  outer.parallel_for(4, [&](int64_t, int) { count.fetch_add(1); });
  EXPECT_EQ(count.load(), 54);
}

TEST(ThreadPool, PollRunsOnTheCallingThreadOnlyAndMayThrow) {
  ThreadPool pool(3);
  const auto caller = std::this_thread::get_id();
  std::atomic<int> calls{0}, elsewhere{0};
  pool.poll = [&] {
    calls.fetch_add(1);
    if (std::this_thread::get_id() != caller) elsewhere.fetch_add(1);
  };
  for (int i = 0; i < 50; ++i) pool.parallel_for(30, [](int64_t, int) {});
  EXPECT_GT(calls.load(), 0);
  EXPECT_EQ(elsewhere.load(), 0);
  pool.poll = [] { throw Error(Code::kInterrupted, "stop"); };
  const auto until_stopped = [&] {
    for (int i = 0; i < 1000; ++i) pool.parallel_for(1000, [](int64_t, int) {});
  };
  EXPECT_THROW(until_stopped(), Error);
}

TEST(ThreadPool, AllocatesNothing) {
  ThreadPool pool(4);
  std::vector<int> values(1000, 0);
  const auto job = [&] { pool.parallel_for(1000, [&](int64_t task, int) { values[size_t(task)] += 1; }); };
  job();
  const int64_t before = allocations.load();
  for (int i = 0; i < 200; ++i) job();
  EXPECT_EQ(allocations.load(), before);
  EXPECT_EQ(std::accumulate(values.begin(), values.end(), 0), 201 * 1000);
}

TEST(ThreadPool, RangesCoverEveryElementOnce) {
  ThreadPool pool(3);
  for (const int64_t n : {0, 1, 99, 100, 101, 1000}) {
    std::vector<std::atomic<int>> hits(static_cast<size_t>(n));
    parallel_ranges(pool, n, 100, [&](int64_t begin, int64_t end) {
      ASSERT_LE(end - begin, 100);
      for (int64_t i = begin; i < end; ++i) hits[size_t(i)].fetch_add(1);
    });
    for (const auto& hit : hits) ASSERT_EQ(hit.load(), 1);
  }
}

// In a process of its own: the limit is there for good.
TEST(ThreadPoolDeathTest, WhereTheSystemGivesNoMoreThreadsItIsOneError) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need address space of their own";
#endif
  const auto starve = [] {
    // A thread's stack is address space: far fewer than a thousand fit.
    const rlimit little{rlim_t{1} << 30, rlim_t{1} << 30}, stack{rlim_t{8} << 20, rlim_t{8} << 20};
    if (::setrlimit(RLIMIT_AS, &little) != 0 || ::setrlimit(RLIMIT_STACK, &stack) != 0) std::_Exit(2);
    try {
      ThreadPool pool(1000);
    } catch (const Error& e) {
      std::_Exit(e.code() == Code::kNoSpace && std::string(e.what()).find("--threads") != std::string::npos ? 0 : 3);
    }
    std::_Exit(4);
  };
  EXPECT_EXIT(starve(), testing::ExitedWithCode(0), "");
}

TEST(ThreadPool, ManyPoolsComeAndGo) {
  for (int i = 0; i < 200; ++i) {
    ThreadPool pool(1 + i % 4);
    std::atomic<int> count{0};
    if (i % 3) pool.parallel_for(10, [&](int64_t, int) { count.fetch_add(1); });
    EXPECT_EQ(count.load(), i % 3 ? 10 : 0);
  }
}

}  // namespace
}  // namespace espalier
