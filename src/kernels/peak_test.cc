#include "kernels/peak.h"

#include <string>

#include <gtest/gtest.h>

#include "base/error.h"
#include "kernels/gemm.h"

namespace espalier {
namespace {

// Rates depend on the machine and on who shares it, so only what must hold anywhere is asserted.
TEST(Peak, MeasuresWhatTheMachineHas) {
  ThreadPool pool(1);
  Context ctx{pool, silent_log(), Isa::kReference, {}};
  EXPECT_GT(gemm_peak_gflops(ctx, DType::kF32, true), 0);
  EXPECT_EQ(gemm_peak_gflops(ctx, DType::kBF16, true) > 0, has_native_bf16());
  EXPECT_GT(read_bandwidth_gb_s(ctx, true), 0);
  EXPECT_GT(copy_bandwidth_gb_s(ctx, true), 0);
  EXPECT_THROW(gemm_peak_gflops(ctx, DType::kI64, true), Error);
}

TEST(Peak, NamesTheClass) {
  const std::string name = machine_class();
  EXPECT_TRUE(name == "A" || name == "B" || name == "other") << name;
  EXPECT_TRUE(name != "A" || has_native_bf16());
}

}  // namespace
}  // namespace espalier
