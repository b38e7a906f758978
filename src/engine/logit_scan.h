// One pass over the logits of a position, in which the processor compares several at a time: the best one, the best of
// every 64, and that all are sound. What most samplers drop is then passed over 64 at a time.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace espalier {

class LogitScan {
 public:
  static constexpr size_t kBlock = 64;

  /// Borrows the logits. Throws Error kBadData where one is NaN or +infinity, or all are -infinity.
  void scan(std::span<const float> logits);

  std::span<const float> logits() const { return logits_; }
  float best() const { return best_; }
  /// The lowest id that has it.
  int32_t best_id() const;
  /// A logit that at least `count` tokens reach, not much below the count-th best; -infinity where that is not known.
  float floor_of_rank(int64_t count);

  /// Calls visit(id, logit) for every logit that is at least `floor` and not -infinity, in order of ids.
  template <class Visit>
  void each_from(float floor, Visit visit) const {
    for (size_t block = 0; block < peaks_.size(); ++block) {
      if (!(peaks_[block] >= floor)) continue;
      const size_t end = std::min(logits_.size(), (block + 1) * kBlock);
      for (size_t i = block * kBlock; i < end; ++i)
        if (logits_[i] >= floor && logits_[i] > kNothing) visit(int32_t(i), logits_[i]);
    }
  }

 private:
  static constexpr float kNothing = -std::numeric_limits<float>::infinity();

  std::span<const float> logits_;
  std::vector<float> peaks_, ranked_;  // of each block; the same for ranking
  float best_ = kNothing;
};

/// sum_i exp(logits[i] - best), where no logit exceeds `best`. It errs by 2^-19 of itself at most.
double sum_exp(std::span<const float> logits, float best);

}  // namespace espalier
