// Rotary embedding in place: each pair (x0, x1) of a head turns by its position's angle,
//   (x0 cos - x1 sin, x1 cos + x0 sin), the other way round when inverse.
#include "kernels/element.h"
#include "kernels/entries.h"

namespace espalier {

namespace reference {

void rope(Context&, const RopeArgs& a) {
  const int64_t half = a.rotary / 2;
  for (int64_t i = 0; i < a.x.rows; ++i) {
    const float* cos = a.table.row<float>(a.position_ids[i]);
    const float* sin = cos + half;
    for (int64_t h = 0; h < a.heads; ++h) {
      for (int64_t j = 0; j < half; ++j) {
        const int64_t head = h * a.head_size;
        const int64_t first = head + (a.interleaved ? 2 * j : j), second = a.interleaved ? first + 1 : first + half;
        const float x0 = element(a.x, i, first), x1 = element(a.x, i, second);
        const float s = a.inverse ? -sin[j] : sin[j];
        set_element(a.x, i, first, x0 * cos[j] - x1 * s);
        set_element(a.x, i, second, x1 * cos[j] + x0 * s);
      }
    }
  }
}

}  // namespace reference
namespace cpu {
void rope(Context& ctx, const RopeArgs& a) { reference::rope(ctx, a); }
}  // namespace cpu

}  // namespace espalier
