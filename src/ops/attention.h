// Causal attention over a fused projection q | k | v.
#pragma once
#include "ops/tape.h"

namespace espalier {

/// out [N, H*D] from qkv [N, (H + 2K) * D], both of the tape's dtype. shape.first_key (kernels/attention.h) says which
/// keys each row sees and must stay until the backward pass.
Var attention(Tape& tape, const Var& qkv, const AttentionShape& shape);

}  // namespace espalier
