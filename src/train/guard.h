// The guard: looks at a step's loss and gradient before the weights change, and says no to what would spoil them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace espalier {

enum class Verdict { kGood, kNotFinite, kSpike };

class Guard {
 public:
  /// Losses that a spike is measured against.
  static constexpr int64_t kWindow = 64;
  /// Losses that must be known before anything counts as a spike.
  static constexpr int64_t kWindowMin = 16;

  /// `spike_z` 0: spikes are let through.
  Guard(int64_t skip_limit, double spike_z);

  /// Judges a step and remembers its loss when it is good. A spike is a loss more than spike_z standard deviations
  /// above the mean of the last kWindow good ones (deviation at least 1 % of the mean, so that a flat stretch does not
  /// make every change a spike).
  Verdict judge(double loss, double grad_norm);

  int64_t skipped() const { return skipped_; }
  int64_t skipped_in_row() const { return in_row_; }
  /// Too many in a row: the run cannot go on.
  bool exhausted() const { return in_row_ >= skip_limit_; }

  /// What a resume needs.
  struct State {
    std::vector<double> window;  ///< good losses, oldest first
    int64_t skipped = 0, in_row = 0;
  };
  State state() const;
  void restore(const State& state);

 private:
  bool spikes(double loss) const;
  int64_t skip_limit_;
  double spike_z_;
  std::vector<double> ring_;
  int64_t count_ = 0, skipped_ = 0, in_row_ = 0;
};

}  // namespace espalier
