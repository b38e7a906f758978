// Attention, plain: the oracle.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/element.h"
#include "kernels/entries.h"
#include "kernels/q8_rows.h"

namespace espalier::reference {
namespace {

double dot(ConstMat a, int64_t row_a, int64_t col_a, ConstMat b, int64_t row_b, int64_t col_b, int64_t n) {
  double sum = 0;
  for (int64_t c = 0; c < n; ++c) sum += double(element(a, row_a, col_a + c)) * element(b, row_b, col_b + c);
  return sum;
}

double capped(double score, float softcap) { return softcap > 0 ? softcap * std::tanh(score / softcap) : score; }

// Softmax of scores in place; returns the log-sum-exp.
double softmax(std::vector<double>& scores) {
  const double top = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double& s : scores) sum += s = std::exp(s - top);
  for (double& s : scores) s /= sum;
  return top + std::log(sum);
}

}  // namespace

void attention_forward(Context&, const AttentionForwardArgs& a) {
  const AttentionShape& s = a.shape;
  const int64_t d = s.head_size;
  std::vector<double> p;
  for (int64_t row = 0; row < s.sequences * s.rows; ++row)
    for (int64_t h = 0; h < s.heads; ++h) {
      const int64_t kv = h / (s.heads / s.kv_heads), start = row / s.rows * s.rows;
      p.clear();
      for (int64_t key = start + s.first(row); key <= row; ++key)
        p.push_back(capped(s.scale * dot(a.q, row, h * d, a.k, key, kv * d, d), s.softcap));
      a.lse.row<float>(h)[row] = float(softmax(p));
      for (int64_t c = 0; c < d; ++c) {
        double sum = 0;
        for (size_t j = 0; j < p.size(); ++j)
          sum += p[j] * element(a.v, start + s.first(row) + int64_t(j), kv * d + c);
        set_element(a.out, row, h * d + c, float(sum));
      }
    }
}

void attention_backward(Context&, const AttentionBackwardArgs& a) {
  const AttentionShape& s = a.shape;
  const int64_t d = s.head_size, n = s.sequences * s.rows, group = s.heads / s.kv_heads;
  std::vector<double> dq(size_t(n * s.heads * d)), dk(size_t(n * s.kv_heads * d)), dv(dk.size());
  for (int64_t row = 0; row < n; ++row)
    for (int64_t h = 0; h < s.heads; ++h) {
      const int64_t kv = h / group, start = row / s.rows * s.rows;
      const double delta = dot(a.dout, row, h * d, a.out, row, h * d, d);
      for (int64_t key = start + s.first(row); key <= row; ++key) {
        const double score = s.scale * dot(a.q, row, h * d, a.k, key, kv * d, d);
        const double bent = s.softcap > 0 ? std::tanh(score / s.softcap) : 0;
        const double p = std::exp(capped(score, s.softcap) - double(element(a.lse, h, row)));
        const double ds = s.scale * (1 - bent * bent) * p * (dot(a.dout, row, h * d, a.v, key, kv * d, d) - delta);
        for (int64_t c = 0; c < d; ++c) {
          dq[size_t((row * s.heads + h) * d + c)] += ds * element(a.k, key, kv * d + c);
          dk[size_t((key * s.kv_heads + kv) * d + c)] += ds * element(a.q, row, h * d + c);
          dv[size_t((key * s.kv_heads + kv) * d + c)] += p * element(a.dout, row, h * d + c);
        }
      }
    }
  for (int64_t row = 0; row < n; ++row) {
    for (int64_t c = 0; c < s.heads * d; ++c) set_element(a.dq, row, c, float(dq[size_t(row * s.heads * d + c)]));
    for (int64_t c = 0; c < s.kv_heads * d; ++c) {
      set_element(a.dk, row, c, float(dk[size_t(row * s.kv_heads * d + c)]));
      set_element(a.dv, row, c, float(dv[size_t(row * s.kv_heads * d + c)]));
    }
  }
}

namespace {

/// Number `column` of a cache row of `width` numbers.
double cached(const ConstMat& m, int64_t width, int64_t row, int64_t column) {
  if (m.dtype != DType::kU8) return element(m, row, column);
  const uint8_t* bytes = m.row<uint8_t>(row);
  return double(int8_t(bytes[column])) * double(q8_scale(bytes, width, column / kQ8Block));
}

}  // namespace

void cached_attention(Context&, const CachedAttentionArgs& a) {
  const int64_t d = a.head_size, width = a.kv_heads * d;
  std::vector<double> p;
  for (int64_t i = 0; i < a.q.rows; ++i) {
    const int64_t position = a.position(i), first = a.first(i);
    const auto at = [&](int64_t key) { return a.paths ? a.paths->cache_row(i, key) : key; };
    for (int64_t h = 0; h < a.heads; ++h) {
      const int64_t kv = h / (a.heads / a.kv_heads);
      p.clear();
      for (int64_t key = first; key <= position; ++key) {
        double sum = 0;
        for (int64_t c = 0; c < d; ++c)
          sum += double(element(a.q, i, h * d + c)) * cached(a.k, width, at(key), kv * d + c);
        p.push_back(capped(a.scale * sum, a.softcap));
      }
      softmax(p);
      for (int64_t c = 0; c < d; ++c) {
        double sum = 0;
        for (size_t j = 0; j < p.size(); ++j) sum += p[j] * cached(a.v, width, at(first + int64_t(j)), kv * d + c);
        set_element(a.out, i, h * d + c, float(sum));
      }
    }
  }
}

}  // namespace espalier::reference
