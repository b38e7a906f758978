#include "kernels/attention.h"

#include "kernels/finite_difference.h"
#include "kernels/op_case.h"

namespace espalier {
namespace {

/// sum(dout * attention(q, k, v)) written down once more in f64; x = (q, k, v).
double weighted_attention(const AttentionShape& s, const std::vector<double>& x, const std::vector<double>& dout) {
  const int64_t n = s.sequences * s.rows, D = s.head_size, width = s.heads * D, kv_width = s.kv_heads * D;
  const double *q = x.data(), *k = q + n * width, *v = k + n * kv_width;
  double sum = 0;
  for (int64_t row = 0; row < n; ++row)
    for (int64_t h = 0; h < s.heads; ++h) {
      const int64_t at = row * width + h * D, kv = h / (s.heads / s.kv_heads) * D, start = row / s.rows * s.rows;
      double total = 0, weighted = 0;
      for (int64_t j = start + s.first(row); j <= row; ++j) {
        double score = 0, dot = 0;
        for (int64_t d = 0; d < D; ++d) {
          score += q[at + d] * k[j * kv_width + kv + d];
          dot += dout[size_t(at + d)] * v[j * kv_width + kv + d];
        }
        score *= double(s.scale);
        if (s.softcap > 0) score = double(s.softcap) * std::tanh(score / double(s.softcap));
        total += std::exp(score);
        weighted += std::exp(score) * dot;
      }
      sum += weighted / total;
    }
  return sum;
}

enum class Mask { kCausal, kWindow, kDocuments };

class Attention : public OpTest {
 protected:
  struct Case {
    int64_t sequences, rows, heads, kv_heads, head_size;
    Mask mask = Mask::kCausal;
    DType dtype = DType::kF32;
    int64_t window = 0;
    float softcap = 0;
  };

  AttentionShape shape(const Case& c) {
    first_key_.clear();
    for (int64_t s = 0; s < c.sequences; ++s)
      for (int64_t i = 0; i < c.rows; ++i) {
        const int64_t window = std::max<int64_t>(0, i - 6), document = i / 13 * 13;
        first_key_.push_back(int32_t(c.mask == Mask::kCausal ? 0 : c.mask == Mask::kWindow ? window : document));
      }
    return {c.sequences, c.rows, c.heads, c.kv_heads, c.head_size, 1.0f / std::sqrt(float(c.head_size)),
            first_key_.data(), c.window, c.softcap};
  }
  std::string name(const Case& c) {
    return fmt::format("sequences {} rows {} heads {}/{} size {} mask {} {} window {} cap {}", c.sequences, c.rows,
                       c.heads, c.kv_heads, c.head_size, int(c.mask), dtype_name(c.dtype), c.window, c.softcap);
  }
  /// Relative error of a weight exp(score - lse): the dot product's roundings (see gemm_test.cc), two of exp, and the
  /// sum over the keys. A soft cap adds the few roundings of its tanh, of a score that it makes smaller.
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

  /// out and lse are those of the inputs, so that the weights add up to one.
  void check_backward(const Case& c) {
    SCOPED_TRACE(name(c));
    const int64_t n = c.sequences * c.rows, width = c.heads * c.head_size, kv_width = c.kv_heads * c.head_size;
    check([&](OpRun& op) {
      AttentionBackwardArgs a;
      a.shape = shape(c);
      a.q = op.input(c.dtype, n, width);
      a.k = op.input(c.dtype, n, kv_width);
      a.v = op.input(c.dtype, n, kv_width);
      a.dout = op.input(c.dtype, n, width);
      std::vector<uint8_t> out(size_t(n * width * dtype_size(c.dtype)));
      std::vector<float> lse(size_t(c.heads * n));
      const Mat out_mat{out.data(), c.dtype, n, width, width};
      reference_kernels().attention_forward(op.ctx, {a.shape, a.q, a.k, a.v, out_mat, mat(lse.data(), c.heads, n)});
      a.out = out_mat;
      a.lse = mat(lse.data(), c.heads, n);
      // |dP - delta| is some sqrt(D) and rarely more than twice that; a sum over the queries that see a key has weights
      // that add up to at most the rows, each with the error of a weight.
      const double size = 2 * std::sqrt(double(c.head_size)), group = double(c.heads / c.kv_heads);
      const double bound = 2 * weight_error(c) * size * std::sqrt(double(c.rows) * group);
      a.dq = op.output(c.dtype, n, width, {.absolute = bound});
      a.dk = op.output(c.dtype, n, kv_width, {.absolute = bound});
      a.dv = op.output(c.dtype, n, kv_width, {.absolute = bound});
      op.kernels.attention_backward(op.ctx, a);
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

// Enough heads for a task each.
TEST_F(Attention, ManyHeads) {
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    check_forward({4, 40, 18, 9, 8, Mask::kDocuments, dtype});
    check_backward({4, 40, 18, 9, 8, Mask::kDocuments, dtype});
  }
}

TEST_F(Attention, BackwardForEveryLength) {
  for (int64_t rows : tails()) check_backward({1, rows, 2, 1, 8});
}

TEST_F(Attention, BackwardForEveryHeadSize) {
  for (int64_t size : {1, 3, 4, 8, 12, 16, 24, 40, 64, 72, 128}) check_backward({1, 37, 1, 1, size});
}

TEST_F(Attention, BackwardWithMasksAndSharedHeads) {
  for (Mask mask : {Mask::kCausal, Mask::kWindow, Mask::kDocuments})
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      check_backward({2, 45, 4, 2, 16, mask, dtype});
      check_backward({1, 300, 1, 1, 8, mask, dtype});
    }
}

TEST_F(Attention, BackwardInSeveralChunksOfKeys) { check_backward({1, 600, 2, 1, 4}); }

// Windows beside document borders, soft caps that bend much (scores reach some 4 with size 16), and both. Forward and
// backward, over one block and several, a task a head and a task a tile.
TEST_F(Attention, WindowsAndSoftCaps) {
  for (int64_t window : {0, 1, 7, 40})
    for (float softcap : {0.0f, 0.7f})
      for (DType dtype : {DType::kF32, DType::kBF16}) {
        const Case c{2, 45, 2, 1, 16, window == 7 ? Mask::kDocuments : Mask::kCausal, dtype, window, softcap};
        check_forward(c);
        check_backward(c);
      }
  for (int64_t window : {100, 300}) {
    check_forward({1, 500, 1, 1, 4, Mask::kCausal, DType::kF32, window, 2});
    check_backward({1, 500, 1, 1, 4, Mask::kCausal, DType::kF32, window, 2});
  }
  check_forward({4, 40, 16, 8, 8, Mask::kDocuments, DType::kF32, 9, 2});
  check_backward({4, 40, 16, 8, 8, Mask::kDocuments, DType::kF32, 9, 2});
}

TEST_F(Attention, AWindowIsWhatFirstKeysSay) {
  const Case said{2, 45, 2, 1, 8, Mask::kWindow}, counted{2, 45, 2, 1, 8, Mask::kCausal, DType::kF32, 7};
  AttentionShape keys = shape(said);
  const std::vector<int32_t> first = first_key_;
  keys.first_key = first.data();
  const AttentionShape window = shape(counted);
  for (int64_t i = 0; i < 90; ++i) EXPECT_EQ(keys.first(i), window.first(i)) << i;
}

// The reference's own gradients, against differences of sum(dout * attention(q, k, v)) in f64.
class AttentionDifferences : public Attention {
 protected:
  void check_differences(const Case& c);
};

TEST_F(AttentionDifferences, OfTheReference) {
  check_differences({2, 5, 2, 1, 3, Mask::kCausal});
  check_differences({2, 5, 2, 1, 3, Mask::kCausal, DType::kF32, 2});
  check_differences({2, 5, 2, 1, 3, Mask::kCausal, DType::kF32, 0, 0.5f});
  check_differences({2, 5, 2, 1, 3, Mask::kCausal, DType::kF32, 3, 2});
}

void AttentionDifferences::check_differences(const Case& c) {
  SCOPED_TRACE(name(c));
  AttentionShape s = shape(c);
  for (int i : {3, 8, 9}) first_key_[size_t(i)] = 2;
  s.first_key = first_key_.data();
  const int64_t n = c.sequences * c.rows, width = c.heads * c.head_size, kv_width = c.kv_heads * c.head_size;
  const size_t q_size = size_t(n * width), kv_size = size_t(n * kv_width);
  const std::vector<double> all = random_f32(1, q_size + 2 * kv_size), dout = random_f32(2, q_size);
  const auto value = [&](const std::vector<double>& x) { return weighted_attention(s, x, dout); };
  const std::vector<double> want = numeric_gradient(value, all);

  std::vector<float> x = to_f32(all), dx(x.size()), weights = to_f32(dout), out(q_size), lse(size_t(c.heads * n));
  Context ctx{one_, silent_log(), Isa::kReference, {}};
  const ConstMat q = mat(x.data(), n, width), k = mat(&x[q_size], n, kv_width),
                 v = mat(&x[q_size + kv_size], n, kv_width);
  reference_kernels().attention_forward(ctx, {s, q, k, v, mat(out.data(), n, width), mat(lse.data(), c.heads, n)});
  reference_kernels().attention_backward(
      ctx, {s, q, k, v, mat(out.data(), n, width), mat(lse.data(), c.heads, n), mat(weights.data(), n, width),
            mat(dx.data(), n, width), mat(&dx[q_size], n, kv_width), mat(&dx[q_size + kv_size], n, kv_width)});
  // out and lse were rounded to f32; gradients are below 10.
  for (size_t i = 0; i < dx.size(); ++i) EXPECT_NEAR(dx[i], want[i], 1e-5) << i;
}

}  // namespace
}  // namespace espalier
