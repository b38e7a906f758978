#include "kernels/entries.h"
#include "kernels/op_case.h"

namespace espalier {
namespace {

class Embed : public OpTest {};

const std::vector<int32_t> kIds{2, 0, 2, 2, 6, 1, 0}, kPositions{0, 1, 2, 0, 1, 2, 3};
constexpr int64_t kRows = 7, kVocabulary = 7;

TEST_F(Embed, ForwardIsExact) {
  for (bool positions : {false, true}) {
    for (int64_t cols : tails()) {
      check([&](OpRun& op) {
        EmbedArgs a{.tokens = op.input(DType::kF32, kVocabulary, cols), .ids = kIds.data(), .scale = 0.7f};
        if (positions) a.positions = op.input(DType::kF32, 4, cols);
        a.position_ids = kPositions.data();
        a.out = op.output(DType::kF32, kRows, cols, {});
        op.kernels.embed_forward(op.ctx, a);
      });
    }
  }
}

// A model that is only run may keep a tied embedding as the products have it.
TEST_F(Embed, TokensMayBeInHalfPrecision) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    for (int64_t cols : tails()) {
      check([&](OpRun& op) {
        EmbedArgs a{.tokens = op.input(dtype, kVocabulary, cols), .ids = kIds.data(), .scale = 0.7f};
        a.positions = op.input(DType::kF32, 4, cols);
        a.position_ids = kPositions.data();
        a.out = op.output(DType::kF32, kRows, cols, {});
        op.kernels.embed_forward(op.ctx, a);
      });
    }
  }
}

// A row gathers at most three gradients; each is one fused or two separate roundings of sums below 4.
TEST_F(Embed, BackwardAddsInRowOrder) {
  for (bool positions : {false, true}) {
    for (int64_t cols : {1, 16, 33, 64, 65, 200, 2100}) {
      check([&](OpRun& op) {
        EmbedBackwardArgs a{.dout = op.input(DType::kF32, kRows, cols), .ids = kIds.data(), .scale = 0.7f};
        a.position_ids = kPositions.data();
        a.dtokens = op.output(DType::kF32, kVocabulary, cols, {.absolute = 3 * 0x1p-22});
        if (positions) a.dpositions = op.output(DType::kF32, 4, cols, {});
        op.kernels.embed_backward(op.ctx, a);
      });
    }
  }
}

TEST_F(Embed, BackwardIsTheTransposeOfForward) {
  // <dout, out> = <dtokens, tokens> + <dpositions, positions> holds for a linear map and its transpose.
  Context ctx{one_, silent_log(), Isa::kReference, {}};
  constexpr int64_t kCols = 5;
  OpRun op(ctx, 0, 0);
  const ConstMat tokens = op.input(DType::kF32, kVocabulary, kCols), positions = op.input(DType::kF32, 4, kCols);
  const ConstMat dout = op.input(DType::kF32, kRows, kCols);
  std::vector<float> out(kRows * kCols), dtokens(kVocabulary * kCols), dpositions(4 * kCols);
  reference::embed_forward(ctx,
                           {tokens, positions, kIds.data(), kPositions.data(), 0.7f, mat(out.data(), kRows, kCols)});
  reference::embed_backward(ctx, {dout, kIds.data(), kPositions.data(), 0.7f, mat(dtokens.data(), kVocabulary, kCols),
                                  mat(dpositions.data(), 4, kCols)});
  double left = 0, right = 0;
  for (size_t i = 0; i < out.size(); ++i) left += double(dout.row<float>(0)[i]) * out[i];
  for (size_t i = 0; i < dtokens.size(); ++i) right += double(tokens.row<float>(0)[i]) * dtokens[i];
  for (size_t i = 0; i < dpositions.size(); ++i) right += double(positions.row<float>(0)[i]) * dpositions[i];
  EXPECT_NEAR(left, right, 1e-5);
}

}  // namespace
}  // namespace espalier
