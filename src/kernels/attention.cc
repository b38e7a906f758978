#include "kernels/entries.h"

namespace espalier::cpu {
void cached_attention(Context& ctx, const CachedAttentionArgs& a) { reference::cached_attention(ctx, a); }
}  // namespace espalier::cpu
