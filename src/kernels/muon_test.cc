#include "kernels/muon.h"

#include "kernels/finite_difference.h"
#include "kernels/op_case.h"

namespace espalier {
namespace {

class Muon : public OpTest {};

using Matrix = std::vector<double>;  // row-major

Matrix product(const Matrix& a, const Matrix& b, size_t m, size_t k, size_t n) {
  Matrix c(m * n);
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j)
      for (size_t p = 0; p < k; ++p) c[i * n + j] += a[i * k + p] * b[p * n + j];
  return c;
}
Matrix transpose(const Matrix& a, size_t m, size_t n) {
  Matrix t(m * n);
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j) t[j * m + i] = a[i * n + j];
  return t;
}

/// The same five steps in f64, always from the left.
Matrix newton_schulz_f64(Matrix x, size_t m, size_t n) {
  double norm = 0;
  for (double v : x) norm += v * v;
  for (double& v : x) v /= std::sqrt(norm) + 1e-7;
  for (int step = 0; step < 5; ++step) {
    const Matrix a = product(x, transpose(x, m, n), m, n, m), aa = product(a, a, m, m, m);
    Matrix b(m * m);
    for (size_t i = 0; i < b.size(); ++i) b[i] = -4.7750 * a[i] + 2.0315 * aa[i];
    const Matrix bx = product(b, x, m, m, n);
    for (size_t i = 0; i < x.size(); ++i) x[i] = 3.4445 * x[i] + bx[i];
  }
  return x;
}

/// Singular values: square roots of the eigenvalues of the smaller Gram matrix, by cyclic Jacobi rotations.
std::vector<double> singular_values(const Matrix& x, size_t m, size_t n) {
  const Matrix t = transpose(x, m, n);
  const size_t k = std::min(m, n);
  Matrix a = m <= n ? product(x, t, m, n, m) : product(t, x, n, m, n);
  for (int sweep = 0; sweep < 30; ++sweep) {
    for (size_t p = 0; p < k; ++p) {
      for (size_t q = p + 1; q < k; ++q) {
        const double angle = 0.5 * std::atan2(2 * a[p * k + q], a[q * k + q] - a[p * k + p]);
        const double c = std::cos(angle), s = std::sin(angle);
        for (size_t i = 0; i < k; ++i) {
          const double ip = a[i * k + p], iq = a[i * k + q];
          a[i * k + p] = c * ip - s * iq;
          a[i * k + q] = s * ip + c * iq;
        }
        for (size_t i = 0; i < k; ++i) {
          const double pi = a[p * k + i], qi = a[q * k + i];
          a[p * k + i] = c * pi - s * qi;
          a[q * k + i] = s * pi + c * qi;
        }
      }
    }
  }
  std::vector<double> values;
  for (size_t i = 0; i < k; ++i) values.push_back(std::sqrt(std::max(0.0, a[i * k + i])));
  return values;
}

TEST_F(Muon, SingularValuesComeNearOneAndF64Agrees) {
  const std::vector<std::pair<size_t, size_t>> shapes{{8, 24}, {24, 8}, {17, 17}, {40, 33}, {1, 5}, {96, 48}};
  for (const auto& [m, n] : shapes) {
    const Matrix g = random_f32(m * 100 + n, m * n);
    const Matrix expected = newton_schulz_f64(g, m, n);
    for (Isa isa : {Isa::kReference, Isa::kAvx2, Isa::kAvx3}) {
      if (!isa_supported(isa)) continue;
      Context ctx{three_, silent_log(), isa, {}};
      std::vector<float> x = to_f32(g);
      newton_schulz(ctx, mat(x.data(), int64_t(m), int64_t(n)));
      for (double s : singular_values(Matrix(x.begin(), x.end()), m, n)) {
        EXPECT_GT(s, 0.6) << isa_name(isa) << " " << m << " x " << n;
        EXPECT_LT(s, 1.3) << isa_name(isa) << " " << m << " x " << n;
      }
      // A step rounds X by some side * 2^-24 and passes earlier errors on times at most 3.9, the steepest slope of
      // the polynomial on [0, 1.2]: 1 + 3.9 + ... + 3.9^4 < 320 roundings.
      const double bound = 320 * double(std::min(m, n)) * 0x1p-24;
      for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], expected[i], bound) << isa_name(isa) << " " << i;
    }
  }
}

TEST_F(Muon, SameBitsForAnyNumberOfThreadsAndStridedMemory) {
  for (Isa isa : {Isa::kAvx2, Isa::kAvx3}) {
    if (!isa_supported(isa)) continue;
    Context single{one_, silent_log(), isa, {}}, several{three_, silent_log(), isa, {}};
    OpRun one(single, 0, 0), three(several, 2, 5);
    newton_schulz(single, one.output(DType::kF32, 70, 130, {}));
    newton_schulz(several, three.output(DType::kF32, 70, 130, {}));
    three.expect_clean(isa_name(isa));
    three.expect_same_bits(one, isa_name(isa));
  }
}

TEST_F(Muon, ZeroStaysZero) {
  Context ctx{one_, silent_log(), Isa::kReference, {}};
  std::vector<float> x(12);
  newton_schulz(ctx, mat(x.data(), 3, 4));
  EXPECT_EQ(x, std::vector<float>(12));
}

}  // namespace
}  // namespace espalier
