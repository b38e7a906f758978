// The test of the tests: a harness that finds nothing would let everything pass.
#include "kernels/op_case.h"

#include <gtest/gtest-spi.h>

namespace espalier {
namespace {

class OpCase : public OpTest {
 protected:
  Context context_{one_, silent_log(), Isa::kReference, {}};
};

TEST_F(OpCase, SeesAWriteBetweenTheRows) {
  OpRun op(context_, 1, 3);
  const Mat y = op.output(DType::kBF16, 2, 5, {});
  op.expect_clean("");
  y.row<bf16>(0)[5] = bf16(1.0f);
  EXPECT_NONFATAL_FAILURE(op.expect_clean(""), "wrote outside matrix 0");
}

TEST_F(OpCase, SeesAWriteBeforeTheFirstRow) {
  OpRun op(context_, 0, 0);
  op.output(DType::kF32, 2, 5, {}).row<float>(0)[-1] = 1;
  EXPECT_NONFATAL_FAILURE(op.expect_clean(""), "wrote outside matrix 0");
}

TEST_F(OpCase, SeesAChangedInput) {
  OpRun op(context_, 0, 0);
  const_cast<float*>(op.input(DType::kF32, 2, 5).row<float>(1))[4] = 7;
  EXPECT_NONFATAL_FAILURE(op.expect_clean(""), "changed input 0");
}

TEST_F(OpCase, SeesWrongValuesNaNAndOtherBits) {
  OpRun right(context_, 0, 0), wrong(context_, 0, 0);
  right.output(DType::kF32, 1, 3, {.absolute = 1e-6});
  const Mat y = wrong.output(DType::kF32, 1, 3, {.absolute = 1e-6});
  wrong.expect_close(right, "");
  wrong.expect_same_bits(right, "");
  y.row<float>(0)[2] += 4e-6f;
  EXPECT_NONFATAL_FAILURE(wrong.expect_close(right, ""), "[0][2]");
  EXPECT_NONFATAL_FAILURE(wrong.expect_same_bits(right, ""), "matrix 0");
  y.row<float>(0)[2] = NAN;
  EXPECT_NONFATAL_FAILURE(wrong.expect_close(right, ""), "[0][2]");
}

}  // namespace
}  // namespace espalier
