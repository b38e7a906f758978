#include "kernels/q8_rows.h"

#include "kernels/op_case.h"

namespace espalier {
namespace {

class Q8Rows : public OpTest {};

TEST_F(Q8Rows, AreTheReferencesBits) {
  for (const int64_t width : {32, 64, 96, 256})
    for (const int64_t rows : {1, 3, 130})
      check([&](OpRun& op) {
        op.kernels.store_q8(op.ctx, {.src = op.input(DType::kF32, rows, width),
                                     .dst = op.output(DType::kU8, rows, q8_row_bytes(width), {})});
      });
}

TEST_F(Q8Rows, AreOffByHalfAScaleAtMost) {
  std::vector<float> x(64);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(float(i) * 1.7f) * (i < 32 ? 5.0f : 1e-3f);
  std::vector<uint8_t> row(size_t(q8_row_bytes(64)));
  ThreadPool pool(1);
  for (Isa isa : {Isa::kReference, choose_isa()}) {
    Context ctx{pool, silent_log(), isa, {}};
    kernels(ctx).store_q8(ctx, {.src = {x.data(), DType::kF32, 1, 64, 64},
                                .dst = {row.data(), DType::kU8, 1, int64_t(row.size()), int64_t(row.size())}});
    for (size_t i = 0; i < x.size(); ++i) {
      const float scale = q8_scale(row.data(), 64, int64_t(i) / 32);
      EXPECT_LE(std::fabs(float(int8_t(row[i])) * scale - x[i]), scale * (0.5f + 0x1p-15f)) << i;
    }
  }
}

TEST_F(Q8Rows, WhatIsNoNumberIsNotMistakenForOne) {
  std::vector<float> x(96, 1.0f);
  x[3] = NAN;
  x[40] = INFINITY;
  std::fill(x.begin() + 64, x.end(), 0.0f);
  std::vector<uint8_t> row(size_t(q8_row_bytes(96)));
  ThreadPool pool(1);
  for (Isa isa : {Isa::kReference, choose_isa()}) {
    Context ctx{pool, silent_log(), isa, {}};
    kernels(ctx).store_q8(ctx, {.src = {x.data(), DType::kF32, 1, 96, 96},
                                .dst = {row.data(), DType::kU8, 1, int64_t(row.size()), int64_t(row.size())}});
    EXPECT_TRUE(std::isnan(q8_scale(row.data(), 96, 0)));
    EXPECT_TRUE(std::isnan(q8_scale(row.data(), 96, 1)));
    EXPECT_EQ(q8_scale(row.data(), 96, 2), 0);
    EXPECT_EQ(row[70], 0);
  }
}

}  // namespace
}  // namespace espalier
