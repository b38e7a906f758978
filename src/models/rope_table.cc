#include "models/rope_table.h"

#include <algorithm>
#include <cmath>

namespace espalier {
namespace {

constexpr double kPi = 3.14159265358979323846;

double llama3_frequency(const RopeScaling& s, double frequency) {
  const double wavelength = 2 * kPi / frequency;
  const double original = double(s.original_positions);
  if (wavelength < original / s.high_freq_factor) return frequency;
  if (wavelength > original / s.low_freq_factor) return frequency / s.factor;
  const double blend = (original / wavelength - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
  return (1 - blend) * frequency / s.factor + blend * frequency;
}

/// The pair, as a real number, that turns so many times within the original context.
double pair_of_turns(const RopeShape& r, double turns) {
  return double(r.rotary) * std::log(double(r.scaling.original_positions) / (turns * 2 * kPi)) /
         (2 * std::log(r.theta));
}

double yarn_frequency(const RopeShape& r, int64_t pair, double frequency) {
  double low = pair_of_turns(r, r.scaling.beta_fast), high = pair_of_turns(r, r.scaling.beta_slow);
  if (r.scaling.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, double(r.rotary - 1));
  if (low == high) high += 0.001;  // as transformers does, where the ramp would be a step
  const double ramp = std::clamp((double(pair) - low) / (high - low), 0.0, 1.0);
  return frequency / r.scaling.factor * ramp + frequency * (1 - ramp);
}

}  // namespace

RopeShape global_rope(const ArchSpec& s) { return {s.rope_theta, s.rotary(), s.rope_scaling}; }

RopeShape local_rope(const ArchSpec& s) {
  return s.local_rope_theta > 0 ? RopeShape{s.local_rope_theta, s.rotary(), {}} : global_rope(s);
}

double rope_frequency(const RopeShape& r, int64_t pair) {
  const double frequency = std::pow(r.theta, -2.0 * double(pair) / double(r.rotary));
  switch (r.scaling.kind) {
    case RopeScaling::Kind::kNone:
    case RopeScaling::Kind::kDynamic:
      return frequency;
    case RopeScaling::Kind::kLinear:
      return frequency / r.scaling.factor;
    case RopeScaling::Kind::kLlama3:
      return llama3_frequency(r.scaling, frequency);
    case RopeScaling::Kind::kYarn:
      return yarn_frequency(r, pair, frequency);
  }
  ESP_CHECK(false, "rope scaling {}", int(r.scaling.kind));
}

double rope_amplitude(const RopeScaling& s) {
  if (s.kind != RopeScaling::Kind::kYarn) return 1;
  if (s.attention_factor > 0) return s.attention_factor;
  const auto amplitude = [&](double mscale) { return s.factor <= 1 ? 1 : 0.1 * mscale * std::log(s.factor) + 1; };
  return s.mscale > 0 && s.mscale_all_dim > 0 ? amplitude(s.mscale) / amplitude(s.mscale_all_dim) : amplitude(1);
}

ConstMat RopeTable::up_to(int64_t positions) {
  const int64_t half = shape_.rotary / 2;
  const int64_t have = table_ ? table_.shape()[0] : 0;
  if (positions > have) {
    table_ = Tensor(DType::kF32, {std::max<int64_t>({positions, 2 * have, 1024}), 2 * half});
    const double amplitude = rope_amplitude(shape_.scaling);
    for (int64_t j = 0; j < half; ++j) {
      // Hugging Face keeps the frequencies in f32; so the product position * frequency starts from the same number.
      const float frequency = float(rope_frequency(shape_, j));
      for (int64_t p = 0; p < table_.shape()[0]; ++p) {
        const float angle = float(p) * frequency;
        float* row = table_.as<float>() + p * 2 * half;
        row[j] = float(amplitude * std::cos(double(angle)));
        row[half + j] = float(amplitude * std::sin(double(angle)));
      }
    }
  }
  return std::as_const(table_).mat();
}

}  // namespace espalier
