// A Feistel network over the smallest even number of bits that holds the samples is a permutation of that many numbers;
// walking on from numbers beyond the samples until one is within gives a permutation of the samples (Black, Rogaway
// 2002, "Ciphers with arbitrary finite domains": cycle walking). At most four numbers a sample, so few are walked.
#include "train/data_order.h"

#include <utility>

#include "base/check.h"
#include "base/rng.h"

namespace espalier {
namespace {

constexpr int kRounds = 6;

}  // namespace

DataOrder::DataOrder(uint64_t seed, int64_t samples) : seed_(seed), samples_(samples), half_bits_(1) {
  ESP_CHECK(samples > 0, "{} samples", samples);
  while (half_bits_ < 31 && (int64_t{1} << (2 * half_bits_)) < samples) ++half_bits_;
}

int64_t DataOrder::sample_at(int64_t cursor) const {
  const Rng rng(seed_, Purpose::kDataOrder, uint64_t(cursor / samples_));  // the epoch
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t x = uint64_t(cursor % samples_);
  do {
    uint64_t left = x >> half_bits_, right = x & mask;
    for (uint64_t round = 0; round < kRounds; ++round) {
      const uint64_t mixed = rng.block(round << 32 | right)[0];
      left = std::exchange(right, left ^ (mixed & mask));
    }
    x = left << half_bits_ | right;
  } while (x >= uint64_t(samples_));
  return int64_t(x);
}

}  // namespace espalier
