// Token and position embeddings: rows gathered forward, gradients scattered backward.
#include "kernels/element.h"
#include "kernels/entries.h"

namespace espalier {

namespace reference {

void embed_forward(Context&, const EmbedArgs& a) {
  for (int64_t i = 0; i < a.out.rows; ++i) {
    for (int64_t c = 0; c < a.out.cols; ++c) {
      float sum = a.scale * element(a.tokens, a.ids[i], c);
      if (!a.positions.empty()) sum += element(a.positions, a.position_ids[i], c);
      set_element(a.out, i, c, sum);
    }
  }
}

void embed_backward(Context&, const EmbedBackwardArgs& a) {
  for (int64_t i = 0; i < a.dout.rows; ++i) {
    for (int64_t c = 0; c < a.dout.cols; ++c) {
      const float d = element(a.dout, i, c);
      a.dtokens.row<float>(a.ids[i])[c] += a.scale * d;
      if (!a.dpositions.empty()) a.dpositions.row<float>(a.position_ids[i])[c] += d;
    }
  }
}

}  // namespace reference
namespace cpu {
void embed_forward(Context& ctx, const EmbedArgs& a) { reference::embed_forward(ctx, a); }
void embed_backward(Context& ctx, const EmbedBackwardArgs& a) { reference::embed_backward(ctx, a); }
}  // namespace cpu

}  // namespace espalier
