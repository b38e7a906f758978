// After its second step the training loop asks the system for no memory: counted at malloc itself, on the training
// thread, in the real loop. (Steps that log, evaluate or save may.) A program of its own, because it replaces malloc.
#include <cstdlib>

#include "train/test_run.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ESP_COUNTS_MALLOC 0  // the sanitizers have replaced it already
#else
#define ESP_COUNTS_MALLOC 1
#endif

namespace {
thread_local int64_t allocations = 0;
}

#if ESP_COUNTS_MALLOC
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* old, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) {
  ++allocations;
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  ++allocations;
  return __libc_calloc(count, bytes);
}
void* realloc(void* old, size_t bytes) {
  ++allocations;
  return __libc_realloc(old, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  ++allocations;
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** out, size_t alignment, size_t bytes) {
  ++allocations;
  *out = __libc_memalign(alignment, bytes);
  return *out ? 0 : ENOMEM;
}
}
#endif

namespace espalier {
namespace {

TEST(TrainAllocation, NothingAfterTheSecondStep) {
  if (!ESP_COUNTS_MALLOC) GTEST_SKIP() << "the sanitizers have replaced malloc";
  delete new int;
  ASSERT_GT(allocations, 0) << "the counter counts";
  for (const char* family : {"gpt2", "llama"})
    for (const char* kind : {"adamw", "lamb", "muon"})
      for (const char* dtype : {"f32", "bf16"}) {
        TestRun run(family);
        run.config.run.max_steps = 8;
        run.config.run.log_every = run.config.run.save_every = 1000;
        run.config.data.accumulate = 2;
        run.config.model.dropout = 0.1;
        run.config.optim.kind = kind;
        run.config.compute.dtype = dtype;
        std::vector<int64_t> counts;  // twice a step: before each of its two micro-batches
        counts.reserve(64);
        run.train({.interrupted = [&] {
          counts.push_back(allocations);
          return false;
        }});
        for (size_t i = 5; i <= 16; ++i)
          EXPECT_EQ(counts[i], counts[4]) << family << " " << kind << " " << dtype << ", step " << (i - 1) / 2;
        EXPECT_GT(counts[4], counts[0]) << "the first steps do allocate";
      }
}

}  // namespace
}  // namespace espalier
