#include "kernels/entries.h"

namespace espalier::cpu {
void row_gemm(Context& ctx, const RowGemmArgs& g) { reference::row_gemm(ctx, g); }
}  // namespace espalier::cpu
