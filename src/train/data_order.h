// In which order the samples are visited: a permutation for each (seed, epoch) that is computed, not stored, so that
// any place of any epoch is reached at once and a resume needs one number.
#pragma once
#include <cstdint>

namespace espalier {

class DataOrder {
 public:
  /// Of `samples` samples, at least 1.
  DataOrder(uint64_t seed, int64_t samples);

  /// The sample visited at `cursor`, counted from the start of the run through all epochs. In [k n, (k + 1) n) each of
  /// the n samples occurs once.
  int64_t sample_at(int64_t cursor) const;

 private:
  uint64_t seed_;
  int64_t samples_;
  int half_bits_;
};

}  // namespace espalier
