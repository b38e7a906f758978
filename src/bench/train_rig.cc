#include "bench/train_rig.h"

#include "base/rng.h"
#include "formats/token_dataset.h"
#include "models/init.h"

namespace espalier {
namespace {

TokenDataset random_tokens(const std::string& path, int64_t vocab, int64_t count) {
  TokenShardWriter writer(path, {.dtype = token_dtype(vocab), .vocab_size = vocab});
  const Rng rng(1, Purpose::kBench);
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < count; ++i) ids.push_back(int32_t(rng.below(uint64_t(i), uint64_t(vocab))));
  writer.append(ids);
  writer.finish();
  return TokenDataset::open(path);
}

}  // namespace

ArchSpec TrainShape::spec() const {
  ModelConfig model;
  model.layers = layers;
  model.width = width;
  model.heads = width / 64;
  return arch_of(model, vocab, context);
}

TrainRig::TrainRig(Context& ctx, const TrainShape& s, DType dtype, int64_t steps, bool recompute)
    : dataset(random_tokens(folder.file("random.tokens"), s.vocab, (steps + 4) * s.batch * s.context + 1)),
      loader(dataset, {.shape = {.sequences = s.batch, .context = s.context}, .seed = 1}),
      model(s.spec(), one_process_mesh(), dtype, true),
      optimizer(model, {}),
      guard(10, 0),
      step(ctx, model, optimizer, guard, {.mesh = one_process_mesh(), .recompute = recompute, .clip = 1}) {
  initialise(ctx, model, 1);
}

}  // namespace espalier
