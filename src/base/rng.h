// Counter-based randomness (Philox 4x32-10, Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"):
// a number depends only on (seed, purpose, stream, index), never on how many were drawn before, so that runs replay
// whatever the number of threads and ranks.
#pragma once
#include <array>
#include <cmath>
#include <cstdint>

namespace espalier {

/// What a random stream is for; two purposes never share numbers.
enum class Purpose : uint32_t { kInit, kDropout, kDataOrder, kSampling, kTest, kBench };

/// One Philox block: four independent 32-bit words for the given 128-bit counter and 64-bit key.
inline std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0], b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {uint32_t(b >> 32) ^ counter[1] ^ key[0], uint32_t(b),
               uint32_t(a >> 32) ^ counter[3] ^ key[1], uint32_t(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

/// A random stream: copyable, 24 bytes, stateless. `stream` is the step, the rank or the request, as the purpose needs.
class Rng {
 public:
  Rng(uint64_t seed, Purpose purpose, uint64_t stream = 0)
      : seed_(seed), stream_(stream), purpose_(uint32_t(purpose)) {}

  /// The four words at position `index` (index < 2^32 blocks a stream; the purpose takes the last counter word).
  std::array<uint32_t, 4> block(uint64_t index) const { return philox(counter(index), key()); }
  /// What block(index) feeds to philox; for loops that run many blocks at once.
  std::array<uint32_t, 4> counter(uint64_t index) const {
    return {uint32_t(index), uint32_t(index >> 32) ^ uint32_t(stream_ >> 32) * 0x9E3779B9u,
            uint32_t(stream_), purpose_};
  }
  std::array<uint32_t, 2> key() const { return {uint32_t(seed_), uint32_t(seed_ >> 32)}; }
  uint32_t u32(uint64_t index) const { return block(index >> 2)[index & 3]; }
  uint64_t u64(uint64_t index) const {
    const auto b = block(index >> 1);
    return index & 1 ? uint64_t{b[3]} << 32 | b[2] : uint64_t{b[1]} << 32 | b[0];
  }
  /// Uniform in [0, 1), 24 bits.
  float uniform(uint64_t index) const { return float(u32(index) >> 8) * 0x1p-24f; }
  /// Uniform integer in [0, n), by multiplication; bias below n / 2^64.
  uint64_t below(uint64_t index, uint64_t n) const {
    return uint64_t((static_cast<unsigned __int128>(u64(index)) * n) >> 64);
  }
  /// Standard normal (Box-Muller).
  float normal(uint64_t index) const {
    const auto b = block(index >> 1);
    const double u = (double(b[0]) + 1) * 0x1p-32, v = double(b[1]) * 0x1p-32;
    const double radius = std::sqrt(-2 * std::log(u)), angle = 6.283185307179586 * v;
    return float(radius * (index & 1 ? std::sin(angle) : std::cos(angle)));
  }

 private:
  uint64_t seed_, stream_;
  uint32_t purpose_;
};

}  // namespace espalier
