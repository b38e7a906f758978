// The cosines and sines of rotary embedding, computed in f64, with the scalings of long-context models.
#pragma once
#include "models/arch_spec.h"
#include "tensor/tensor.h"

namespace espalier {

/// Which frequencies: the base, and the leading numbers of a head that turn.
struct RopeShape {
  double theta = 0;
  int64_t rotary = 0;
  RopeScaling scaling;
};
/// Those of the layers that see everything, and of all where the spec has no local ones.
RopeShape global_rope(const ArchSpec& spec);
/// Those of the layers with the window.
RopeShape local_rope(const ArchSpec& spec);

/// Angle per position of pair j (of rotary/2): theta^(-2j/rotary), scaled:
///   linear   divided by factor (Chen et al. 2023)
///   dynamic  as it is: transformers stretches only contexts beyond the model's own, which are refused here
///   llama3   (Meta 2024) wavelengths under original/high_freq_factor stay, over original/low_freq_factor are divided
///            by factor, between them a blend
///   yarn     (Peng et al. 2023) pairs that turn beta_fast times or more within the original context stay, those that
///            turn beta_slow times or less are divided by factor, between them a ramp over the pairs
double rope_frequency(const RopeShape& shape, int64_t pair);

/// What cosines and sines are multiplied by: yarn's 0.1 ln(factor) + 1, or what its fields say; otherwise 1.
double rope_amplitude(const RopeScaling& scaling);

class RopeTable {
 public:
  explicit RopeTable(const RopeShape& shape) : shape_(shape) {}
  /// f32 [>= positions, rotary]: cos (rotary/2), then sin (rotary/2). Grows by doubling; earlier views stay valid as
  /// long as the tape that uses them is cleared before the next call.
  ConstMat up_to(int64_t positions);

 private:
  RopeShape shape_;
  Tensor table_;
};

}  // namespace espalier
