#include "engine/logit_scan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>

#include "base/check.h"
#include "base/error.h"

namespace espalier {
namespace {

// Four floats in one register of every x86-64 (a notation of GCC and clang): compilers do not find this by themselves,
// as they may not change the order of sums and of comparisons with NaN.
using Floats = float __attribute__((vector_size(16)));
using Ints = int32_t __attribute__((vector_size(16)));
constexpr size_t kWidth = 4;
constexpr size_t kBlock = LogitScan::kBlock;

Floats load(const float* x) {
  Floats v;
  std::memcpy(&v, x, sizeof v);
  return v;
}

[[noreturn]] void refuse(std::span<const float> logits) {
  const auto bad = std::find_if(logits.begin(), logits.end(), [](float x) { return !(x < INFINITY); });
  if (bad == logits.end())
    throw error(Code::kBadData, "sampling: all {} logits are -infinity; no token is left to choose", logits.size());
  throw error(Code::kBadData, "sampling: the logit of token {} is {}; the model's weights or activations overflowed",
              bad - logits.begin(), *bad);
}

// e^x for x <= 0, as if x were at least -87: x = n ln 2 + r with |r| <= ln 2 / 2, and e^r by its series up to r^6,
// which leaves 2^-23. 2^n is put together from its exponent.
Floats exp_of_negative(Floats x) {
  x = x < -87.0f ? Floats{} - 87.0f : x;
  const Ints n = __builtin_convertvector(x * 1.44269504f - 0.5f, Ints);
  const Floats whole = __builtin_convertvector(n, Floats);
  const Floats r = (x - whole * 0.693359375f) - whole * -2.12194440e-4f;
  Floats e = r * (1.0f / 720) + 1.0f / 120;
  e = e * r + 1.0f / 24;
  e = e * r + 1.0f / 6;
  e = e * r + 0.5f;
  e = e * r + 1.0f;
  e = e * r + 1.0f;
  return e * std::bit_cast<Floats>((n + 127) << 23);
}

}  // namespace

void LogitScan::scan(std::span<const float> logits) {
  ESP_CHECK(!logits.empty(), "no logits");
  logits_ = logits;
  peaks_.assign((logits.size() + kBlock - 1) / kBlock, -INFINITY);
  Ints sound = Ints{} - 1;
  const size_t whole = logits.size() / kBlock;
  for (size_t block = 0; block < whole; ++block) {
    const float* x = logits.data() + block * kBlock;
    Floats most = load(x);
    for (size_t i = 0; i < kBlock; i += kWidth) {
      const Floats v = load(x + i);
      most = v > most ? v : most;
      sound &= v < INFINITY;  // NaN is not less
    }
    peaks_[block] = std::max(std::max(most[0], most[1]), std::max(most[2], most[3]));
  }
  bool all_sound = (sound[0] & sound[1] & sound[2] & sound[3]) != 0;
  for (size_t i = whole * kBlock; i < logits.size(); ++i) {
    peaks_.back() = std::max(peaks_.back(), logits[i]);
    all_sound &= logits[i] < INFINITY;
  }
  best_ = *std::max_element(peaks_.begin(), peaks_.end());
  if (!all_sound || best_ == -INFINITY) refuse(logits);
}

int32_t LogitScan::best_id() const {
  const size_t block = size_t(std::find(peaks_.begin(), peaks_.end(), best_) - peaks_.begin());
  const auto from = logits_.begin() + std::ptrdiff_t(block * kBlock);
  return int32_t(std::find(from, logits_.end(), best_) - logits_.begin());
}

// Each of the `count` best blocks has a token as good as its best one.
float LogitScan::floor_of_rank(int64_t count) {
  if (count < 1 || size_t(count) > peaks_.size()) return -INFINITY;
  ranked_ = peaks_;
  const auto at = ranked_.begin() + std::ptrdiff_t(count - 1);
  std::nth_element(ranked_.begin(), at, ranked_.end(), std::greater<>());
  return *at;
}

double sum_exp(std::span<const float> logits, float best) {
  double total = 0;
  size_t i = 0;
  for (; i + kBlock <= logits.size(); i += kBlock) {
    Floats sums{};
    for (size_t j = 0; j < kBlock; j += kWidth) sums += exp_of_negative(load(logits.data() + i + j) - best);
    total += double(sums[0]) + double(sums[1]) + double(sums[2]) + double(sums[3]);
  }
  for (; i < logits.size(); ++i) total += double(exp_of_negative(Floats{} + (logits[i] - best))[0]);
  return total;
}

}  // namespace espalier
