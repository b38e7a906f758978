// Deterministic mutations of seed inputs for the smoke run: an input depends on nothing but the seeds, the run's seed
// and the iteration, so that a failure is repeated from two numbers.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/rng.h"

namespace espalier {

/// A stream of choices for one input.
class Dice {
 public:
  Dice(uint64_t seed, uint64_t iteration) : rng_(seed, Purpose::kTest, iteration) {}
  /// Uniform in [0, n); 0 where n is 0.
  uint64_t below(uint64_t n) { return n == 0 ? 0 : rng_.below(next_++, n); }

 private:
  Rng rng_;
  uint64_t next_ = 0;
};

/// Input number `iteration`: a seed (the first rounds: unchanged), changed one to eight times by bit flips, cuts,
/// splices with other seeds, repeated pieces, lying integers of 1 to 8 bytes, punctuation or random bytes. At most
/// 64 KiB.
std::string mutated_input(const std::vector<std::string>& seeds, uint64_t seed, uint64_t iteration);

}  // namespace espalier
