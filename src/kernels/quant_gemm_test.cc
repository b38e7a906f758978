// The quantised product: every kind of panel on every instruction set gives the bits of the reference.
#include "kernels/quant_gemm.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <vector>

#include "base/rng.h"
#include "kernels/kernels.h"
#include "tensor/tensor.h"

namespace espalier {
namespace {

/// Panels of random bytes, whose f16 fields are random numbers of the order of 0.01.
class RandomPanels {
 public:
  RandomPanels(PanelKind kind, int64_t rows, int64_t cols, uint64_t stream) : rng_(7, Purpose::kTest, stream) {
    run_ = {.kind = kind, .rows = rows};
    const int64_t bytes = run_.count() * panel_bytes(kind, cols);
    memory_ = allocate_aligned(size_t(bytes));
    auto* p = static_cast<std::byte*>(memory_.get());
    for (int64_t i = 0; i < bytes; ++i) p[i] = std::byte(rng_.u64(uint64_t(i)) & 255);
    const PanelFormat& f = panel_format(kind);
    for (std::byte* unit = p; unit < p + bytes; unit += f.unit_bytes()) {
      const int begin = f.super() ? f.super_at() : f.scales_at();
      for (int at = begin; at < f.unit_bytes(); at += 2) set_half(unit + at);
    }
    run_.panels = p;
  }
  const PanelRun& run() const { return run_; }

 private:
  void set_half(std::byte* p) {
    const f16 x((rng_.uniform(uint64_t(reinterpret_cast<uintptr_t>(p)) % 4096) - 0.5f) / 64);
    std::memcpy(p, &x.bits, 2);
  }
  Rng rng_;
  std::shared_ptr<void> memory_;
  PanelRun run_;
};

std::vector<float> random_numbers(int64_t count, uint64_t stream) {
  const Rng rng(5, Purpose::kTest, stream);
  std::vector<float> x(static_cast<size_t>(count));
  for (size_t i = 0; i < x.size(); ++i) x[i] = (rng.uniform(i) - 0.5f) * (i % 37 == 0 ? 20.0f : 1.0f);
  return x;
}

class QuantGemm : public testing::Test {
 protected:
  std::vector<float> multiply(Isa isa, ThreadPool& pool, const std::vector<float>& x, int64_t rows,
                              std::span<const PanelRun> w, bool bias = false) {
    Context ctx{pool, silent_log(), isa, {}};
    const int64_t cols = int64_t(x.size()) / rows;
    int64_t n = 0;
    for (const PanelRun& run : w) n += run.rows;
    const std::vector<float> b = random_numbers(n, 99);
    std::vector<float> y(static_cast<size_t>(rows * n), -1);
    kernels(ctx).quant_gemm(ctx, {mat(x.data(), rows, cols), w, mat(y.data(), rows, n),
                                  bias ? mat(b.data(), 1, n) : ConstMat{}});
    return y;
  }
  void expect_reference_bits(const std::vector<float>& x, int64_t rows, std::span<const PanelRun> w, bool bias) {
    const std::vector<float> expected = multiply(Isa::kReference, one_, x, rows, w, bias);
    for (Isa isa : {Isa::kAvx2, Isa::kAvx3}) {
      if (!isa_supported(isa)) continue;
      for (ThreadPool* pool : {&one_, &three_}) {
        const std::vector<float> y = multiply(isa, *pool, x, rows, w, bias);
        ASSERT_EQ(std::memcmp(y.data(), expected.data(), y.size() * sizeof(float)), 0)
            << isa_name(isa) << ", " << pool->size() << " threads, first " << y[0] << " for " << expected[0];
      }
    }
  }
  ThreadPool one_{1}, three_{3};
};

TEST_F(QuantGemm, EveryKindGivesTheBitsOfTheReference) {
  for (int kind = 0; kind < int(PanelKind::kCount); ++kind)
    for (int64_t cols : {32, 64, 96, 256, 288, 544})
      for (int64_t rows : {1, 2, 3, 5, 8, 9}) {
        SCOPED_TRACE(fmt::format("kind {} cols {} rows {}", kind, cols, rows));
        const RandomPanels w(PanelKind(kind), 37, cols, uint64_t(kind));
        const PanelRun runs[] = {w.run()};
        expect_reference_bits(random_numbers(rows * cols, 3), rows, runs, rows % 2 == 1);
      }
}

TEST_F(QuantGemm, RunsOfSeveralKindsStandBesideEachOther) {
  const RandomPanels a(PanelKind::kQ4_K, 48, 512, 1), b(PanelKind::kQ6_K, 5, 512, 2), c(PanelKind::kQ8_0, 19, 512, 3);
  const PanelRun runs[] = {a.run(), b.run(), c.run()};
  expect_reference_bits(random_numbers(6 * 512, 4), 6, runs, true);
}

// What makes speculation lossless: row i of a pass over k rows has the bits of the row alone.
TEST_F(QuantGemm, RowsDoNotDependOnEachOther) {
  constexpr int64_t kCols = 512, kRows = 33;
  const std::vector<float> x = random_numbers(kRows * kCols, 8);
  for (int kind = 0; kind < int(PanelKind::kCount); ++kind) {
    const RandomPanels w(PanelKind(kind), 40, kCols, uint64_t(kind));
    const PanelRun runs[] = {w.run()};
    for (Isa isa : {Isa::kAvx2, Isa::kAvx3}) {
      if (!isa_supported(isa)) continue;
      std::vector<float> alone;
      for (int64_t i = 0; i < kRows; ++i) {
        const std::vector<float> row(x.begin() + i * kCols, x.begin() + (i + 1) * kCols);
        const std::vector<float> y = multiply(isa, one_, row, 1, runs);
        alone.insert(alone.end(), y.begin(), y.end());
      }
      for (int64_t rows = 1; rows <= kRows; ++rows) {
        const std::vector<float> first(x.begin(), x.begin() + rows * kCols);
        const std::vector<float> y = multiply(isa, three_, first, rows, runs);
        ASSERT_EQ(std::memcmp(y.data(), alone.data(), y.size() * sizeof(float)), 0)
            << isa_name(isa) << " kind " << kind << " rows " << rows;
      }
    }
  }
}

// The largest sums that can arise: all numbers at the ends of their range.
TEST_F(QuantGemm, NothingOverflows) {
  constexpr int64_t kCols = 256;
  for (const float sign : {1.0f, -1.0f}) {
    std::vector<float> x(kCols * 2, sign);
    for (size_t i = 0; i < x.size(); i += 2) x[i] = 1;
    for (int kind = 0; kind < int(PanelKind::kCount); ++kind)
      for (const int fill : {0x00, 0xFF}) {
        const int64_t bytes = panel_bytes(PanelKind(kind), kCols);
        const std::shared_ptr<void> memory = allocate_aligned(size_t(bytes));
        std::memset(memory.get(), fill, size_t(bytes));
        const PanelFormat& f = panel_format(PanelKind(kind));
        for (int64_t unit = 0; unit < bytes; unit += f.unit_bytes())
          for (int at = f.super() ? f.super_at() : f.scales_at(); at < f.unit_bytes(); at += 2) {
            const f16 one(1.0f);
            std::memcpy(static_cast<std::byte*>(memory.get()) + unit + at, &one.bits, 2);
          }
        const PanelRun runs[] = {{PanelKind(kind), 16, static_cast<const std::byte*>(memory.get())}};
        SCOPED_TRACE(fmt::format("kind {} fill {} sign {}", kind, fill, sign));
        expect_reference_bits(x, 2, runs, false);
      }
  }
}

TEST_F(QuantGemm, WhatIsNotFiniteGivesNaNInItsRowAlone) {
  constexpr int64_t kCols = 128;
  const RandomPanels w(PanelKind::kQ4_0, 16, kCols, 1);
  const PanelRun runs[] = {w.run()};
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
    for (Isa isa : {Isa::kReference, Isa::kAvx2, Isa::kAvx3}) {
      if (!isa_supported(isa)) continue;
      std::vector<float> x = random_numbers(3 * kCols, 2);
      x[kCols + 70] = bad;
      const std::vector<float> y = multiply(isa, one_, x, 3, runs);
      for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i / 16 == 1) << isa_name(isa) << " " << i;
    }
}

/// Panels handed out one by one.
class CopiedPanels : public PanelSource {
 public:
  CopiedPanels(const PanelRun& run, int64_t cols) : run_(run), bytes_(panel_bytes(run.kind, cols)) {}
  void pack(int64_t index, std::byte* out) const override {
    std::memcpy(out, run_.panels + index * bytes_, size_t(bytes_));
  }

 private:
  PanelRun run_;
  int64_t bytes_;
};

TEST_F(QuantGemm, PanelsMadeAsNeededGiveTheSame) {
  constexpr int64_t kCols = 768;
  const RandomPanels w(PanelKind::kQ5_K, 200, kCols, 1);
  const CopiedPanels source(w.run(), kCols);
  const PanelRun kept[] = {w.run()}, made[] = {{PanelKind::kQ5_K, 200, nullptr, &source}};
  const std::vector<float> x = random_numbers(10 * kCols, 2);
  for (Isa isa : {Isa::kReference, Isa::kAvx2, Isa::kAvx3})
    if (isa_supported(isa)) {
      EXPECT_EQ(multiply(isa, three_, x, 10, made), multiply(isa, three_, x, 10, kept));
    }
}

}  // namespace
}  // namespace espalier
