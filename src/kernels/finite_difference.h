// Gradients by central differences in f64: the oracle of the reference backward kernels.
#pragma once
#include <vector>

#include "base/function_ref.h"
#include "base/rng.h"

namespace espalier {

/// d f / d x[i] for every i. Error about h^2 |f'''| / 6 + 2^-52 |f| / h, for h = 1e-5 some 1e-10 on tame functions.
inline std::vector<double> numeric_gradient(FunctionRef<double(const std::vector<double>&)> f, std::vector<double> x) {
  constexpr double kStep = 1e-5;
  std::vector<double> gradient;
  for (double& xi : x) {
    const double before = xi;
    xi = before + kStep;
    const double above = f(x);
    xi = before - kStep;
    gradient.push_back((above - f(x)) / (2 * kStep));
    xi = before;
  }
  return gradient;
}

/// n numbers, uniform in [low, high), that f32 holds exactly.
inline std::vector<double> random_f32(uint64_t stream, size_t n, float low = -1, float high = 1) {
  const Rng rng(23, Purpose::kTest, stream);
  std::vector<double> x;
  for (size_t i = 0; i < n; ++i) x.push_back(double(low + (high - low) * rng.uniform(i)));
  return x;
}
inline std::vector<float> to_f32(const std::vector<double>& x) { return {x.begin(), x.end()}; }

}  // namespace espalier
