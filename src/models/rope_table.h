// The cosines and sines of rotary embedding, computed in f64, with the scalings of long-context models.
#pragma once
#include "models/arch_spec.h"
#include "tensor/tensor.h"

namespace espalier {

class RopeTable {
 public:
  explicit RopeTable(const ArchSpec& spec) : spec_(spec) {}
  /// f32 [>= positions, rotary]: cos (rotary/2), then sin (rotary/2). Grows by doubling; earlier views stay valid as
  /// long as the tape that uses them is cleared before the next call.
  ConstMat up_to(int64_t positions);

 private:
  ArchSpec spec_;
  Tensor table_;
};

/// Angle per position of pair j (of rotary/2): theta^(-2j/rotary), scaled. Llama 3's rule (Meta 2024): wavelengths
/// under original/high_freq_factor stay, over original/low_freq_factor are divided by factor, between them a blend.
double rope_frequency(const ArchSpec& spec, int64_t pair);

}  // namespace espalier
