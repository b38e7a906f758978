#include "models/rope_table.h"

#include <algorithm>
#include <cmath>

namespace espalier {

double rope_frequency(const ArchSpec& s, int64_t pair) {
  const double frequency = std::pow(s.rope_theta, -2.0 * double(pair) / double(s.rotary()));
  const RopeScaling& scaling = s.rope_scaling;
  if (scaling.kind == RopeScaling::Kind::kNone) return frequency;
  if (scaling.kind == RopeScaling::Kind::kLinear) return frequency / scaling.factor;
  const double wavelength = 2 * 3.14159265358979323846 / frequency;
  const double original = double(scaling.original_positions);
  if (wavelength < original / scaling.high_freq_factor) return frequency;
  if (wavelength > original / scaling.low_freq_factor) return frequency / scaling.factor;
  const double blend = (original / wavelength - scaling.low_freq_factor) /
                       (scaling.high_freq_factor - scaling.low_freq_factor);
  return (1 - blend) * frequency / scaling.factor + blend * frequency;
}

ConstMat RopeTable::up_to(int64_t positions) {
  const int64_t half = spec_.rotary() / 2;
  const int64_t have = table_ ? table_.shape()[0] : 0;
  if (positions > have) {
    table_ = Tensor(DType::kF32, {std::max<int64_t>({positions, 2 * have, 1024}), 2 * half});
    for (int64_t j = 0; j < half; ++j) {
      // Hugging Face keeps the frequencies in f32; so the product position * frequency starts from the same number.
      const float frequency = float(rope_frequency(spec_, j));
      for (int64_t p = 0; p < table_.shape()[0]; ++p) {
        const float angle = float(p) * frequency;
        float* row = table_.as<float>() + p * 2 * half;
        row[j] = float(std::cos(double(angle)));
        row[half + j] = float(std::sin(double(angle)));
      }
    }
  }
  return std::as_const(table_).mat();
}

}  // namespace espalier
