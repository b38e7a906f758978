#include "models/resize.h"

#include <algorithm>
#include <vector>

#include "models/load.h"

namespace espalier {
namespace {

void fill_new_rows(Context& ctx, Tensor& weight, const VocabularyGrowth& growth) {
  ESP_CHECK(weight && weight.dtype() == DType::kF32 && weight.shape()[0] == growth.rows, "a vocabulary of {} rows",
            growth.rows);
  const int64_t cols = weight.shape()[1];
  float* rows = weight.as<float>();
  // Each column is summed by one thread in one order.
  parallel_ranges(ctx.pool, cols, 64, [&](int64_t begin, int64_t end) {
    std::vector<double> mean(size_t(end - begin));
    for (int64_t r = 0; r < growth.known; ++r)
      for (int64_t c = begin; c < end; ++c) mean[size_t(c - begin)] += double(rows[r * cols + c]);
    for (double& m : mean) m /= double(growth.known);
    for (int64_t r = growth.known; r < growth.rows; ++r)
      if (growth.is_new(r)) std::copy(mean.begin(), mean.end(), rows + r * cols + begin);
  });
}

}  // namespace

VocabularyGrowth grow_vocabulary(int64_t stored, int64_t known, int64_t tokens, int64_t multiple) {
  ESP_CHECK(stored > 0 && known > 0 && tokens >= known && multiple > 0, "{} rows, {} tokens, then {}, of {}", stored,
            known, tokens, multiple);
  const int64_t needed = std::max(stored, tokens);
  return {.known = std::min(known, stored), .tokens = tokens, .stored = stored,
          .rows = (needed + multiple - 1) / multiple * multiple};
}

void load_grown_weights(Context& ctx, Decoder& model, const std::string& path, const VocabularyGrowth& growth) {
  ArchSpec stored = model.spec();
  stored.vocab = growth.stored;
  load_weights(ctx, model, path, stored);
  for (const char* name : {"embedding.weight", "head.weight"})
    if (Param* p = model.find(name)) fill_new_rows(ctx, p->master ? p->master : p->compute_copy, growth);
  model.refresh_copies(ctx);
}

}  // namespace espalier
