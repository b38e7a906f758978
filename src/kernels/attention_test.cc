#include "kernels/attention.h"

#include "kernels/op_case.h"

namespace espalier {
namespace {

enum class Mask { kCausal, kWindow, kDocuments };

class Attention : public OpTest {
 protected:
  struct Case {
    int64_t sequences, rows, heads, kv_heads, head_size;
    Mask mask = Mask::kCausal;
    DType dtype = DType::kF32;
  };

  AttentionShape shape(const Case& c) {
    first_key_.clear();
    for (int64_t s = 0; s < c.sequences; ++s)
      for (int64_t i = 0; i < c.rows; ++i) {
        const int64_t window = std::max<int64_t>(0, i - 6), document = i / 13 * 13;
        first_key_.push_back(int32_t(c.mask == Mask::kCausal ? 0 : c.mask == Mask::kWindow ? window : document));
      }
    return {c.sequences, c.rows, c.heads, c.kv_heads, c.head_size, 1.0f / std::sqrt(float(c.head_size)),
            first_key_.data()};
  }
  std::string name(const Case& c) {
    return fmt::format("sequences {} rows {} heads {}/{} size {} mask {} {}", c.sequences, c.rows, c.heads,
                       c.kv_heads, c.head_size, int(c.mask), dtype_name(c.dtype));
  }
  /// Relative error of a weight exp(score - lse): the dot product's roundings (see gemm_test.cc), two of exp, and the
  /// sum over the keys.
  static double weight_error(const Case& c) {
    return (4 * std::sqrt(double(c.head_size)) + 8 + double(c.rows)) * 0x1p-24;
  }

  void check_forward(const Case& c) {
    SCOPED_TRACE(name(c));
    check([&](OpRun& op) {
      const int64_t n = c.sequences * c.rows;
      AttentionForwardArgs a;
      a.shape = shape(c);
      a.q = op.input(c.dtype, n, c.heads * c.head_size);
      a.k = op.input(c.dtype, n, c.kv_heads * c.head_size);
      a.v = op.input(c.dtype, n, c.kv_heads * c.head_size);
      a.out = op.output(c.dtype, n, c.heads * c.head_size, {.absolute = 2 * weight_error(c)});  // |v| < 1
      a.lse = op.output(DType::kF32, c.heads, n, {.absolute = weight_error(c)});
      op.kernels.attention_forward(op.ctx, a);
    });
  }

  std::vector<int32_t> first_key_;
};

TEST_F(Attention, ForwardForEveryLength) {
  for (int64_t rows : tails()) check_forward({1, rows, 2, 1, 8});
}

TEST_F(Attention, ForwardForEveryHeadSize) {
  for (int64_t size : {1, 3, 4, 8, 12, 16, 24, 40, 64, 72, 128}) check_forward({1, 37, 1, 1, size});
}

TEST_F(Attention, ForwardWithMasksAndSharedHeads) {
  for (Mask mask : {Mask::kCausal, Mask::kWindow, Mask::kDocuments})
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      check_forward({2, 45, 4, 2, 16, mask, dtype});
      check_forward({3, 33, 3, 3, 8, mask, dtype});
    }
}

TEST_F(Attention, ForwardOverSeveralBlocksOfKeys) { check_forward({1, 1100, 1, 1, 4}); }

}  // namespace
}  // namespace espalier
