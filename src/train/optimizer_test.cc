// Each rule against a step worked out by hand, and the choice of rule and decay by parameter.
#include "train/optimizer.h"

#include <cmath>

#include "models/init.h"
#include "train/test_run.h"

namespace espalier {
namespace {

OptimConfig config_of(const char* kind) {
  OptimConfig c;
  c.kind = kind;
  c.lr = 0.01;
  c.beta1 = 0.9, c.beta2 = 0.99, c.eps = 1e-8, c.weight_decay = 0.1;
  return c;
}

/// A model whose weights are w and whose gradients are g everywhere, until a test says otherwise.
struct Fixture {
  explicit Fixture(const OptimConfig& config, DType dtype = DType::kF32)
      : model(arch(), one_process_mesh(), dtype, true), optimizer(model, config) {}
  static ArchSpec arch() {
    ModelConfig m;
    m.family = "llama";
    m.layers = 1, m.width = 16, m.heads = 2, m.ffn = 24;
    m.tied_head = false;
    return arch_of(m, 32, 16);
  }
  void fill(float w, float g) {
    for (Param& p : model.params())
      for (int64_t i = 0; i < p.size(); ++i) p.master.as<float>()[i] = w, p.grad.as<float>()[i] = g;
    model.refresh_copies(ctx);
  }
  float weight(const char* name, int64_t i = 0) { return model.find(name)->master.as<float>()[i]; }
  void step(double factor = 1, double scale = 1) {
    optimizer.update(ctx, factor, scale, [](size_t) {});
  }

  ThreadPool pool{2};
  Context ctx{pool, silent_log(), choose_isa(), nullptr};
  Decoder model;
  Optimizer optimizer;
};

TEST(Optimizer, AdamWTakesTwoStepsWorkedOutByHand) {
  Fixture f(config_of("adamw"));
  f.fill(0.5f, 0.2f);
  f.step();
  // m = 0.02, v = 0.0004; both bias-corrected give 0.2 and 0.04: the update is 1 (but for eps).
  // w = 0.5 (1 - 0.01 * 0.1) - 0.01
  EXPECT_NEAR(f.weight("layers.0.attention.out.weight"), 0.4895, 1e-7);
  EXPECT_NEAR(f.weight("embedding.weight"), 0.4895, 1e-7);
  EXPECT_NEAR(f.weight("final_norm.weight"), 0.49, 1e-7) << "norms do not decay";
  f.fill(0.5f, -0.1f);
  f.step(0.5, 2);  // half the rate; the gradient counts twice: -0.2
  // m = 0.9 * 0.02 - 0.1 * 0.2 = -0.002, / (1 - 0.81) = -0.0105263
  // v = 0.99 * 0.0004 + 0.01 * 0.04 = 0.000796, / (1 - 0.9801) = 0.04; root 0.2
  // w = 0.5 - 0.005 * (-0.0526316)
  EXPECT_NEAR(f.weight("final_norm.weight"), 0.500263158, 1e-7);
  EXPECT_NEAR(f.weight("head.weight"), 0.500263158 - 0.005 * 0.1 * 0.5, 1e-7);
  EXPECT_EQ(f.optimizer.updates(), 2);
}

TEST(Optimizer, LambScalesByTheRatioOfNorms) {
  Fixture f(config_of("lamb"));
  f.fill(0.5f, 0.2f);
  f.step();
  // update = 1 + 0.1 * 0.5 = 1.05 everywhere; |w| / |u| = 0.5 / 1.05; w -= 0.01 * 0.5
  EXPECT_NEAR(f.weight("layers.0.ffn.down.weight"), 0.495, 1e-7);
  EXPECT_NEAR(f.weight("embedding.weight", 31), 0.495, 1e-7);
  EXPECT_NEAR(f.weight("final_norm.weight"), 0.49, 1e-7) << "what does not decay is not scaled";
  Fixture zero(config_of("lamb"));
  zero.fill(0, 0.2f);
  zero.step();
  EXPECT_NEAR(zero.weight("embedding.weight"), -0.01, 1e-7) << "a weight of norm 0 takes the plain step";
}

TEST(Optimizer, MuonStepsAreOrthogonalPieceByPiece) {
  OptimConfig config = config_of("muon");
  config.weight_decay = 0;
  Fixture f(config);
  f.fill(0, 0);
  Param& qkv = *f.model.find("layers.0.attention.qkv.weight");
  const Rng rng(4, Purpose::kTest);
  for (int64_t i = 0; i < qkv.size(); ++i) qkv.grad.as<float>()[i] = rng.normal(uint64_t(i));
  f.model.find("final_norm.weight")->grad.as<float>()[3] = 0.2f;
  f.step();
  EXPECT_NEAR(f.weight("final_norm.weight", 3), -0.01, 1e-7) << "adamw takes the rest";
  // Each of q, k, v is 16 x 16: -w / (0.01 * 0.2 * 4) is near an orthogonal matrix, whose squares sum to 16.
  const float* w = qkv.master.as<float>();
  for (int64_t piece = 0; piece < 3; ++piece) {
    double squares = 0, across = 0;
    for (int64_t i = 0; i < 256; ++i) squares += std::pow(w[piece * 256 + i] / 0.008, 2);
    for (int64_t i = 0; i < 16; ++i) across += w[piece * 256 + i] * w[piece * 256 + 16 + i] / (0.008 * 0.008);
    EXPECT_GT(squares, 16 * 0.7 * 0.7);
    EXPECT_LT(squares, 16 * 1.2 * 1.2);
    EXPECT_LT(std::abs(across), 0.35) << "rows are nearly orthogonal";
  }
  EXPECT_EQ(f.optimizer.state_of(0).size(), 3u) << "the embedding keeps two moments";
}

// After five rounds every singular value lies between 0.7 and 1.2 whatever it was (Jordan et al. 2024), and x keeps its
// singular vectors: a diagonal stays diagonal.
TEST(Muon, OrthogonaliseFlattensTheSpectrum) {
  ThreadPool pool(2);
  Context ctx{pool, silent_log(), choose_isa(), nullptr};
  for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{24, 24}, {40, 16}, {16, 40}}) {
    Tensor x(DType::kF32, {rows, cols});
    // x = sum over i of s_i e_i f_i': a rectangular diagonal, singular values from 0.05 to 3.
    const int64_t small = std::min(rows, cols);
    for (int64_t i = 0; i < small; ++i)
      x.as<float>()[i * cols + i] = float(0.05 + 2.95 * double(i) / double(small - 1));
    MuonScratch scratch;
    orthogonalise(ctx, x.mat(), scratch);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < cols; ++j) {
        const float value = x.as<float>()[i * cols + j];
        if (i == j) {
          EXPECT_GT(value, i == 0 ? 0.4 : 0.65) << i;  // 0.05 is 1/80 of the norm: five rounds bring it half way
          EXPECT_LT(value, 1.25) << i;
        } else {
          EXPECT_NEAR(value, 0, 1e-5) << i << " " << j;
        }
      }
  }
}

TEST(Optimizer, RefreshesTheComputeCopiesInTheSameSweep) {
  for (const char* kind : {"adamw", "lamb", "muon"}) {
    Fixture f(config_of(kind), DType::kBF16);
    initialise(f.ctx, f.model, 1);
    for (Param& p : f.model.params())
      for (int64_t i = 0; i < p.size(); ++i) p.grad.as<float>()[i] = 0.01f * float(i % 7 - 3);
    f.step();
    for (Param& p : f.model.params()) {
      if (!p.compute_copy) continue;
      const bf16* copy = p.compute_copy.as<bf16>();
      for (int64_t i = 0; i < p.size(); ++i)
        ASSERT_EQ(copy[i].bits, bf16(p.master.as<float>()[i]).bits) << kind << p.name;
    }
  }
}

TEST(Optimizer, TheNormIsThatOfAllGradients) {
  Fixture f(config_of("adamw"));
  f.fill(0, 0);
  f.model.find("embedding.weight")->grad.as<float>()[5] = 3;
  f.model.find("final_norm.weight")->grad.as<float>()[0] = -4;
  EXPECT_DOUBLE_EQ(f.optimizer.reduce_gradients(f.ctx, one_process_mesh()), 5);
  EXPECT_DOUBLE_EQ(f.optimizer.squares()[0], 9);
}

}  // namespace
}  // namespace espalier
