// Choosing the ISA of a call. A file with vector code includes itself once for each target (Highway's
// foreach_target), which yields the same function in namespaces N_AVX2 and N_AVX3; the choice follows ctx.isa, not the
// process, so that a test can compare both. Dispatch once a call on whole matrices, never inside a loop.
#pragma once

/// ESP_SIMD(ctx, product)(args...): calls N_AVX3::product or N_AVX2::product of the namespace around.
#define ESP_SIMD(ctx, function) \
  ((ctx).isa == ::espalier::Isa::kAvx3 ? &N_AVX3::function : &N_AVX2::function)
