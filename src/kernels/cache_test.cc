#include "kernels/cache.h"

#include <gtest/gtest.h>

namespace espalier {
namespace {

TEST(KernelCache, ScratchIsReusedAlignedAndApartBySlot) {
  ThreadPool pool(1);
  Context ctx{pool, silent_log()};
  float* large = scratch(ctx).get<float>(Slot::kPartials, 1000);
  EXPECT_EQ(uintptr_t(large) % 64, 0u);
  EXPECT_EQ(scratch(ctx).get<float>(Slot::kPartials, 10), large);
  EXPECT_EQ(static_cast<void*>(scratch(ctx).get<double>(Slot::kPartials, 500)), large);
  float* other = scratch(ctx).get<float>(Slot::kMuon, 1000);
  EXPECT_TRUE(other + 1000 <= large || large + 1000 <= other);
}

TEST(KernelCache, OneObjectOfEachTypeAContextSharedByItsCopies) {
  struct Counter {
    int value = 0;
  };
  ThreadPool pool(1);
  Context ctx{pool, silent_log()}, stranger{pool, silent_log()};
  cached<Counter>(ctx).value = 7;
  Context copy = ctx;
  EXPECT_EQ(cached<Counter>(copy).value, 7);
  EXPECT_EQ(cached<Counter>(stranger).value, 0);
}

}  // namespace
}  // namespace espalier
