#include "models/init.h"

#include <cmath>

#include "base/file.h"
#include "base/rng.h"

namespace espalier {

void initialise(Context& ctx, Decoder& model, uint64_t seed, double std) {
  const double residual_std = std / std::sqrt(2.0 * double(model.spec().layers));
  for (Param& p : model.params()) {
    float* w = p.master.as<float>();
    if (p.shape().rank() == 1) {
      std::fill(w, w + p.size(), p.name.ends_with("norm.weight") ? float(1 - model.spec().norm_offset) : 0.0f);
      continue;
    }
    const bool residual = p.name.ends_with("attention.out.weight") || p.name.ends_with("ffn.down.weight");
    const float scale = float(residual ? residual_std : std);
    const Rng rng(seed, Purpose::kInit, hash64(p.name));
    parallel_ranges(ctx.pool, p.size(), 1 << 16, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) w[i] = scale * rng.normal(uint64_t(i));
    });
  }
  model.refresh_copies(ctx);
}

}  // namespace espalier
