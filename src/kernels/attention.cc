#include "kernels/entries.h"

namespace espalier::cpu {
void attention_backward(Context& ctx, const AttentionBackwardArgs& a) { reference::attention_backward(ctx, a); }
void cached_attention(Context& ctx, const CachedAttentionArgs& a) { reference::cached_attention(ctx, a); }
}  // namespace espalier::cpu
