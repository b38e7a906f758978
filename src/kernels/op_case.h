// Op cases: how every kernel is tested. A case makes its matrices from an OpRun and calls the kernel table once; it is
// run by the reference table, then on every ISA of this machine with 1 and with 3 threads, on memory that is aligned,
// shifted by an element or two, and with gaps between the rows. Checked are: values against the reference, equal bits
// whatever the number of threads, inputs untouched, and guard bytes around and between all rows.
//
//   class Add : public OpTest {};
//   TEST_F(Add, MatchesReference) {
//     for (int64_t cols : tails())
//       check([&](OpRun& op) {
//         const ConstMat a = op.input(DType::kF32, 3, cols), b = op.input(DType::kBF16, 3, cols);
//         op.kernels.add(op.ctx, {a, b, op.output(DType::kF32, 3, cols, {.absolute = 1e-6})});
//       });
//   }
#pragma once
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "kernels/element.h"
#include "kernels/kernels.h"

namespace espalier {

/// |value - reference| <= absolute + relative * |reference|, and one rounding of a 16-bit output more. {}: exactly
/// equal.
struct Tolerance {
  double absolute = 0, relative = 0;
};

/// Bound on the error of an f32 sum of n terms in vectors of 8 lanes or more, as a fraction of the sum of their
/// magnitudes: n / 8 additions a lane, three more across lanes, a few roundings in each term.
inline double sum_error(int64_t n) { return double(n / 8 + 8) * 0x1p-24; }

/// Owner of one guarded matrix.
class GuardedMat {
 public:
  /// Rows start `shift` elements past a 64-byte border and lie `gap` elements apart.
  GuardedMat(DType dtype, int64_t rows, int64_t cols, int64_t shift, int64_t gap) {
    const int64_t size = dtype_size(dtype), stride = cols + gap;
    bytes_.assign(size_t(2 * kGuard + 64 + (shift + rows * stride) * size), kGuardByte);
    auto* aligned = reinterpret_cast<uint8_t*>((uintptr_t(bytes_.data()) + kGuard + 63) / 64 * 64);
    mat_ = {aligned + shift * size, dtype, rows, cols, stride};
  }
  Mat mat() const { return mat_; }
  std::string row_bytes() const {
    std::string all;
    for (int64_t i = 0; i < mat_.rows; ++i) all.append(row(i), row_size());
    return all;
  }
  bool guards_intact() const {
    std::vector<bool> ours(bytes_.size(), false);
    for (int64_t i = 0; i < mat_.rows; ++i) {
      const size_t begin = size_t(row(i) - reinterpret_cast<const char*>(bytes_.data()));
      std::fill_n(ours.begin() + int64_t(begin), row_size(), true);
    }
    for (size_t i = 0; i < bytes_.size(); ++i)
      if (!ours[i] && bytes_[i] != kGuardByte) return false;
    return true;
  }

 private:
  static constexpr int64_t kGuard = 128;
  static constexpr uint8_t kGuardByte = 0xA5;
  const char* row(int64_t i) const {
    return static_cast<const char*>(mat_.data) + i * mat_.stride * dtype_size(mat_.dtype);
  }
  size_t row_size() const { return size_t(mat_.cols * dtype_size(mat_.dtype)); }
  std::vector<uint8_t> bytes_;
  Mat mat_;
};

/// One execution of a case. Matrices are filled with numbers that depend on their order alone, so that every execution
/// sees the same.
class OpRun {
 public:
  OpRun(Context& context, int64_t shift, int64_t gap)
      : ctx(context), kernels(espalier::kernels(context)), shift_(shift), gap_(gap) {}

  Context& ctx;
  const Kernels& kernels;

  /// Uniform in [low, high).
  ConstMat input(DType dtype, int64_t rows, int64_t cols, float low = -1, float high = 1) {
    Slot& slot = make(dtype, rows, cols, low, high);
    slot.before = slot.memory.row_bytes();
    return slot.memory.mat();
  }
  /// Starts as random numbers too (an accumulating kernel needs them, an assigning one must overwrite them).
  Mat output(DType dtype, int64_t rows, int64_t cols, Tolerance tolerance, float low = -1, float high = 1) {
    Slot& slot = make(dtype, rows, cols, low, high);
    slot.is_output = true;
    slot.tolerance = tolerance;
    return slot.memory.mat();
  }
  /// A number the kernel returned.
  void result(double value, Tolerance tolerance) { results_.push_back({value, tolerance}); }

  /// Guards and inputs.
  void expect_clean(const std::string& where) const {
    for (size_t i = 0; i < slots_.size(); ++i) {
      EXPECT_TRUE(slots_[i].memory.guards_intact()) << where << ": wrote outside matrix " << i;
      if (slots_[i].is_output) continue;
      EXPECT_EQ(slots_[i].memory.row_bytes(), slots_[i].before) << where << ": changed input " << i;
    }
  }
  void expect_close(const OpRun& reference, const std::string& where) const {
    for (size_t i = 0; i < slots_.size(); ++i)
      if (slots_[i].is_output) expect_close(slots_[i], reference.slots_[i], where + ", matrix " + std::to_string(i));
    for (size_t i = 0; i < results_.size(); ++i) {
      const double want = reference.results_[i].value;
      EXPECT_NEAR(results_[i].value, want, bound(results_[i].tolerance, want)) << where << ", result " << i;
    }
  }
  void expect_same_bits(const OpRun& other, const std::string& where) const {
    for (size_t i = 0; i < slots_.size(); ++i)
      EXPECT_EQ(slots_[i].memory.row_bytes(), other.slots_[i].memory.row_bytes()) << where << ", matrix " << i;
    for (size_t i = 0; i < results_.size(); ++i) EXPECT_EQ(results_[i].value, other.results_[i].value) << where;
  }

 private:
  struct Slot {
    GuardedMat memory;
    bool is_output = false;
    Tolerance tolerance{};
    std::string before{};
  };
  struct Result {
    double value;
    Tolerance tolerance;
  };

  Slot& make(DType dtype, int64_t rows, int64_t cols, float low, float high) {
    slots_.push_back({GuardedMat(dtype, rows, cols, shift_, gap_)});
    const Rng rng(17, Purpose::kTest, slots_.size());
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t c = 0; c < cols; ++c)
        set_element(slots_.back().memory.mat(), i, c, low + (high - low) * rng.uniform(uint64_t(i * cols + c)));
    return slots_.back();
  }
  static double bound(Tolerance t, double reference, DType dtype = DType::kF32) {
    if (t.absolute == 0 && t.relative == 0) return 0;
    const double rounding = dtype == DType::kBF16 ? 0x1p-7 : dtype == DType::kF16 ? 0x1p-10 : 0;
    return t.absolute + (t.relative + rounding) * std::abs(reference);
  }

  static void expect_close(const Slot& got, const Slot& want, const std::string& where) {
    const Mat g = got.memory.mat(), w = want.memory.mat();
    double worst = 0;
    std::string message;
    for (int64_t i = 0; i < g.rows; ++i) {
      for (int64_t c = 0; c < g.cols; ++c) {
        const double a = element(g, i, c), b = element(w, i, c);
        if (a == b || (std::isnan(a) && std::isnan(b))) continue;
        const double excess = std::abs(a - b) - bound(got.tolerance, b, g.dtype);
        if (excess <= worst) continue;  // false for NaN on one side
        worst = std::isnan(excess) ? INFINITY : excess;
        message = fmt::format("[{}][{}] = {}, reference {}, {} too far", i, c, a, b, excess);
      }
    }
    EXPECT_TRUE(message.empty()) << where << message;
  }

  std::vector<Slot> slots_;
  std::vector<Result> results_;
  int64_t shift_, gap_;
};

class OpTest : public ::testing::Test {
 protected:
  template <class Case>
  void check(const Case& run_case) {
    for (const auto& [shift, gap] : {std::pair<int64_t, int64_t>{0, 0}, {1, 0}, {0, 3}, {2, 5}}) {
      Context plain{one_, silent_log(), Isa::kReference, reference_cache_};
      OpRun reference(plain, shift, gap);
      run_case(reference);
      reference.expect_clean("reference");
      for (Isa isa : {Isa::kAvx2, Isa::kAvx3}) {
        if (!isa_supported(isa)) continue;
        const std::string where = fmt::format("{} shift {} gap {}", isa_name(isa), shift, gap);
        Context single{one_, silent_log(), isa, {}}, several{three_, silent_log(), isa, {}};
        OpRun one(single, shift, gap), three(several, shift, gap);
        run_case(one);
        run_case(three);
        one.expect_clean(where);
        one.expect_close(reference, where);
        three.expect_clean(where);
        three.expect_same_bits(one, where + ", 3 threads");
      }
    }
  }
  /// Lengths around the vectors of both ISAs: 1 ... 2N + 1 for AVX-512's 16 lanes, and some longer.
  static std::vector<int64_t> tails() {
    std::vector<int64_t> n;
    for (int64_t i = 1; i <= 33; ++i) n.push_back(i);
    n.insert(n.end(), {64, 100, 257});
    return n;
  }

  ThreadPool one_{1}, three_{3};
  std::shared_ptr<void> reference_cache_;
};

}  // namespace espalier
