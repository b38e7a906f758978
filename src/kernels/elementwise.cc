// Loops that touch each element once: add, copy (with conversion and scale), dropout.
#include "kernels/element.h"
#include "kernels/entries.h"

namespace espalier {

namespace reference {

void add(Context&, const AddArgs& a) {
  for (int64_t i = 0; i < a.y.rows; ++i)
    for (int64_t c = 0; c < a.y.cols; ++c) set_element(a.y, i, c, element(a.a, i, c) + element(a.b, i, c));
}

void copy(Context&, const CopyArgs& a) {
  for (int64_t i = 0; i < a.dst.rows; ++i) {
    for (int64_t c = 0; c < a.dst.cols; ++c) {
      const float x = a.scale * element(a.src, i, c);
      set_element(a.dst, i, c, a.accumulate ? element(a.dst, i, c) + x : x);
    }
  }
}

void dropout(Context&, const DropoutArgs& a) {
  const float scale = 1 / (1 - a.p);
  for (int64_t i = 0; i < a.x.rows; ++i) {
    for (int64_t c = 0; c < a.x.cols; ++c) {
      const bool keep = a.rng.uniform(uint64_t(i * a.x.cols + c)) >= a.p;
      set_element(a.y, i, c, keep ? element(a.x, i, c) * scale : 0);
    }
  }
}

}  // namespace reference
namespace cpu {
void add(Context& ctx, const AddArgs& a) { reference::add(ctx, a); }
void copy(Context& ctx, const CopyArgs& a) { reference::copy(ctx, a); }
void dropout(Context& ctx, const DropoutArgs& a) { reference::dropout(ctx, a); }
}  // namespace cpu

}  // namespace espalier
