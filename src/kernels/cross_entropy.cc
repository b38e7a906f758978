// Softmax cross entropy over rows of logits, loss and gradient in one call, so that probabilities are never stored.
#include <algorithm>
#include <cmath>

#include "kernels/element.h"
#include "kernels/entries.h"

namespace espalier {

namespace reference {

void cross_entropy(Context&, const CrossEntropyArgs& a) {
  for (int64_t i = 0; i < a.logits.rows; ++i) {
    const float* x = a.logits.row<float>(i);
    const int64_t target = a.targets[i], cols = a.logits.cols;
    ESP_CHECK(target < cols, "target {} of {}", target, cols);
    const double max = *std::max_element(x, x + cols);
    double sum = 0;
    for (int64_t c = 0; c < cols; ++c) sum += std::exp(x[c] - max);
    const double lse = max + std::log(sum);
    a.loss[i] = target < 0 ? 0 : float(lse - x[target]);
    if (a.dlogits.empty()) continue;
    const double weight = target < 0 ? 0 : a.weight ? a.weight[i] : a.scale;
    for (int64_t c = 0; c < cols; ++c) {
      const double probability = target < 0 ? 0 : std::exp(x[c] - lse);
      set_element(a.dlogits, i, c, float((probability - (c == target)) * weight));
    }
  }
}

}  // namespace reference
namespace cpu {
void cross_entropy(Context& ctx, const CrossEntropyArgs& a) { reference::cross_entropy(ctx, a); }
}  // namespace cpu

}  // namespace espalier
