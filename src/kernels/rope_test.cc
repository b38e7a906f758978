#include "kernels/entries.h"
#include "kernels/op_case.h"

namespace espalier {
namespace {

class Rope : public OpTest {};

// Two products and a sum of numbers below 1, rounded three times at most.
constexpr Tolerance kRotation{.absolute = 3 * 0x1p-24};
const std::vector<int32_t> kPositions{3, 0, 4, 4, 1};

RopeArgs make_args(OpRun& op, DType dtype, int64_t rotary, int64_t head_size) {
  constexpr int64_t kHeads = 3;
  RopeArgs a;
  a.x = op.output(dtype, int64_t(kPositions.size()), kHeads * head_size + 2, kRotation);
  a.heads = kHeads;
  a.head_size = head_size;
  a.rotary = rotary;
  a.table = op.input(DType::kF32, 5, rotary);
  a.position_ids = kPositions.data();
  return a;
}

TEST_F(Rope, MatchesReference) {
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    for (int64_t rotary : {2, 4, 6, 8, 14, 16, 18, 32, 34, 62, 64, 66, 128}) {
      for (bool interleaved : {false, true}) {
        for (bool inverse : {false, true}) {
          check([&](OpRun& op) {
            RopeArgs a = make_args(op, dtype, rotary, rotary + (rotary % 3) * 2);
            a.interleaved = interleaved;
            a.inverse = inverse;
            op.kernels.rope(op.ctx, a);
          });
        }
      }
    }
  }
}

TEST_F(Rope, TurnsByHandComputedAngles) {
  Context ctx{one_, silent_log(), Isa::kReference, {}};
  const std::vector<float> table{0, 0.6f, 1, 0.8f};  // one position: cos (0, 0.6), sin (1, 0.8)
  const int32_t position = 0;
  for (bool interleaved : {false, true}) {
    std::vector<float> x{1, 2, 3, 4};
    RopeArgs a{.x = mat(x.data(), 1, 4), .heads = 1, .head_size = 4, .rotary = 4, .table = mat(table.data(), 1, 4)};
    a.position_ids = &position;
    a.interleaved = interleaved;
    reference::rope(ctx, a);
    // Pairs (1, 3) and (2, 4), or (1, 2) and (3, 4); the first by 90 degrees, the second by (0.6, 0.8).
    const std::vector<float> expected = interleaved
                                            ? std::vector<float>{-2, 1, 3 * 0.6f - 4 * 0.8f, 4 * 0.6f + 3 * 0.8f}
                                            : std::vector<float>{-3, 2 * 0.6f - 4 * 0.8f, 1, 4 * 0.6f + 2 * 0.8f};
    for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(x[i], expected[i], 1e-6) << i;
    // A rotation preserves lengths, so its inverse is its transpose: turning back is the backward pass.
    a.inverse = true;
    reference::rope(ctx, a);
    for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(x[i], float(i + 1), 1e-6);
  }
}

}  // namespace
}  // namespace espalier
