#include "kernels/op_case.h"

namespace espalier {
namespace {

class Optimizer : public OpTest {};

AdamHyper hyper(int step) {
  const double b1 = 0.9, b2 = 0.999;
  return {.lr = 1e-2,
          .beta1 = b1,
          .beta2 = b2,
          .eps = 1e-8,
          .decay = 0.1,
          .bias1 = 1 - std::pow(b1, step),
          .bias2 = 1 - std::pow(b2, step),
          .grad_scale = 1};
}

constexpr size_t kCount = 4;
const std::vector<float> kStart{0.5f, -1.25f, 2.0f, 0.03125f};
std::vector<float> gradient(int step) {  // eighths, which f32 holds exactly
  std::vector<float> g;
  for (int i = 0; i < int(kCount); ++i) g.push_back(float((7 * step + 3 * i) % 11 - 5) / 8);
  return g;
}

// torch 2.15.0, CPU, foreach=False, ten steps with the numbers above (step counted from 0 in gradient):
//   w = torch.tensor([0.5, -1.25, 2.0, 0.03125], requires_grad=True)
//   o = torch.optim.AdamW([w], lr=1e-2, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.1, foreach=False)
//   for t in range(10): w.grad = torch.tensor([((7 * t + 3 * i) % 11 - 5) / 8 for i in range(4)]); o.step()
constexpr double kTorchWeights[] = {0.5084095597267151, -1.2432419061660767, 1.9782761335372925, 0.015520226210355759};
constexpr double kTorchFirst[] = {0.01953291706740856, -0.04703213647007942, -0.05454316735267639, 0.03372284397482872};
constexpr double kTorchSecond[] = {0.001694712438620627, 0.0016493317671120167, 0.001322419848293066,
                                   0.0015709566650912166};

TEST_F(Optimizer, AdamWMatchesPyTorchAndF64OverTenSteps) {
  std::vector<double> dw(kStart.begin(), kStart.end()), dm(kCount), dv(kCount);
  for (int t = 0; t < 10; ++t) {
    const AdamHyper h = hyper(t + 1);
    for (size_t i = 0; i < kCount; ++i) {
      const double g = gradient(t)[i];
      dw[i] -= h.lr * h.decay * dw[i];
      dm[i] = h.beta1 * dm[i] + (1 - h.beta1) * g;
      dv[i] = h.beta2 * dv[i] + (1 - h.beta2) * g * g;
      dw[i] -= h.lr * (dm[i] / h.bias1) / (std::sqrt(dv[i] / h.bias2) + h.eps);
    }
  }
  for (Isa isa : {Isa::kReference, Isa::kAvx2, Isa::kAvx3}) {
    if (!isa_supported(isa)) continue;
    Context ctx{one_, silent_log(), isa, {}};
    std::vector<float> w = kStart, m(kCount), v(kCount);
    std::vector<uint16_t> copy(kCount);
    for (int t = 0; t < 10; ++t) {
      const std::vector<float> g = gradient(t);
      kernels(ctx).adamw(ctx, {w.data(), g.data(), m.data(), v.data(), kCount, hyper(t + 1), copy.data()});
    }
    for (size_t i = 0; i < kCount; ++i) {
      EXPECT_NEAR(w[i], kTorchWeights[i], 1e-6 * std::abs(kTorchWeights[i])) << isa_name(isa) << " " << i;
      EXPECT_NEAR(m[i], kTorchFirst[i], 1e-6 * std::abs(kTorchFirst[i]));
      EXPECT_NEAR(v[i], kTorchSecond[i], 1e-6 * kTorchSecond[i]);
      EXPECT_NEAR(w[i], dw[i], 1e-6 * std::abs(dw[i])) << isa_name(isa) << " " << i;
      EXPECT_EQ(copy[i], bf16(w[i]).bits);
    }
  }
}

struct State {
  float *m, *v;
};
// Moments are rounded a few times; the ratio m / sqrt(v) stays below 4 here (|m| < 0.2, v > 0.01 after the step).
State moments(OpRun& op, int64_t n) {
  float* m = op.output(DType::kF32, 1, n, {.absolute = 0x1p-23}, -0.1f, 0.1f).row<float>(0);
  float* v = op.output(DType::kF32, 1, n, {.absolute = 0x1p-23}, 0.01f, 1).row<float>(0);
  return {m, v};
}

std::vector<int64_t> lengths(std::vector<int64_t> n) {
  n.push_back(70001);
  return n;
}

TEST_F(Optimizer, AdamWMatchesReference) {
  for (int64_t n : lengths(tails())) {
    check([&](OpRun& op) {
      const float* g = op.input(DType::kF32, 1, n).row<float>(0);
      const auto [m, v] = moments(op, n);
      float* w = op.output(DType::kF32, 1, n, {.absolute = 4 * 0x1p-24}).row<float>(0);
      uint16_t* copy = nullptr;
      if (n % 2) copy = op.output(DType::kBF16, 1, n, {.absolute = 4 * 0x1p-24}).row<uint16_t>(0);
      AdamHyper h = hyper(3);
      h.grad_scale = 0.5;
      op.kernels.adamw(op.ctx, {w, g, m, v, n, h, copy});
    });
  }
}

TEST_F(Optimizer, LambMatchesReference) {
  for (int64_t n : lengths(tails())) {
    check([&](OpRun& op) {
      const float* w = op.input(DType::kF32, 1, n).row<float>(0);
      const float* g = op.input(DType::kF32, 1, n).row<float>(0);
      const auto [m, v] = moments(op, n);
      // |mhat / sqrt(vhat)| < 0.2 / 0.271 / sqrt(0.009 / 0.003) < 1, each of some eight roundings below an ulp of it.
      float* update = op.output(DType::kF32, 1, n, {.absolute = 8 * 0x1p-24}).row<float>(0);
      const LambNorms norms = op.kernels.lamb(op.ctx, {w, g, m, v, update, n, hyper(3)});
      op.result(norms.w_squared, {.relative = double(n + 1) * 0x1p-53});
      op.result(norms.update_squared, {.absolute = 1e-12, .relative = 1e-5});
    });
  }
}

TEST_F(Optimizer, LambStepByHand) {
  // One parameter of two weights: the update is m/bias1 = g over |g| (first step), plus decay * w.
  Context ctx{one_, silent_log(), Isa::kReference, {}};
  std::vector<float> w{3, 4}, g{0.5f, -2}, m(2), v(2), update(2);
  const LambNorms norms =
      reference_kernels().lamb(ctx, {w.data(), g.data(), m.data(), v.data(), update.data(), 2, hyper(1)});
  EXPECT_NEAR(update[0], 1 + 0.1 * 3, 1e-6);
  EXPECT_NEAR(update[1], -1 + 0.1 * 4, 1e-6);
  EXPECT_NEAR(norms.w_squared, 25, 1e-12);
  EXPECT_NEAR(norms.update_squared, 1.3 * 1.3 + 0.6 * 0.6, 1e-5);
  const double trust = std::sqrt(norms.w_squared / norms.update_squared);
  reference_kernels().axpy(ctx, {w.data(), update.data(), 2, float(-0.01 * trust)});
  EXPECT_NEAR(w[0], 3 - 0.01 * trust * 1.3, 1e-6);
  EXPECT_NEAR(w[1], 4 + 0.01 * trust * 0.6, 1e-6);
}

TEST_F(Optimizer, AxpyMatchesReference) {
  for (int64_t n : lengths(tails())) {
    check([&](OpRun& op) {
      const float* x = op.input(DType::kF32, 1, n).row<float>(0);
      float* w = op.output(DType::kF32, 1, n, {.absolute = 2 * 0x1p-24}).row<float>(0);
      uint16_t* copy = nullptr;
      if (n % 2) copy = op.output(DType::kBF16, 1, n, {.absolute = 2 * 0x1p-24}).row<uint16_t>(0);
      op.kernels.axpy(op.ctx, {w, x, n, 0.3f, 0.1f, copy});
    });
  }
}

}  // namespace
}  // namespace espalier
