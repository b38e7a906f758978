// Which precision the products run in and what the machine could reach, measured where the recipe leaves it open.
#pragma once
#include <string>

#include "base/context.h"
#include "tensor/dtype.h"
#include "train/train_config.h"

namespace espalier {

struct ComputeChoice {
  DType dtype = DType::kF32;
  double peak_gflops = 0;  ///< what MFU is a fraction of; 0: unknown
  std::string peak_note;   ///< "best of 1024^3 and 2048^3 products in f32, 2 threads"
};

/// Decides by compute.dtype; `auto` measures both precisions (a second or two) and takes bf16 only where it is clearly
/// faster, because it costs accuracy. Warns where the recipe wants bf16 and the machine only emulates it.
ComputeChoice choose_compute(Context& ctx, const ComputeConfig& config);

}  // namespace espalier
