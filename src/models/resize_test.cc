#include "models/resize.h"

#include <cmath>
#include <cstring>

#include "formats/test_folder.h"
#include "models/golden_model.h"
#include "models/save.h"

namespace espalier {
namespace {

TEST(Resize, RowsBehindTheTokensAreUsedFirst) {
  const auto rows = [](int64_t stored, int64_t known, int64_t tokens, int64_t multiple) {
    return grow_vocabulary(stored, known, tokens, multiple).rows;
  };
  EXPECT_EQ(rows(100, 100, 100, 1), 100);
  EXPECT_EQ(rows(100, 90, 95, 1), 100);
  EXPECT_EQ(rows(100, 90, 105, 1), 105);
  EXPECT_EQ(rows(100, 90, 105, 64), 128);
  EXPECT_EQ(rows(100, 100, 100, 64), 128);
  EXPECT_EQ(rows(128, 100, 110, 64), 128);
  EXPECT_FALSE(grow_vocabulary(100, 90, 90, 1).changes());
  EXPECT_TRUE(grow_vocabulary(100, 90, 91, 1).changes());
  EXPECT_TRUE(grow_vocabulary(100, 100, 100, 64).changes());
  const VocabularyGrowth g = grow_vocabulary(100, 90, 95, 64);
  std::string is_new;
  for (const int64_t row : {0, 89, 90, 94, 95, 99, 100, 127}) is_new += g.is_new(row) ? 'n' : 'o';
  EXPECT_EQ(is_new, "oonnoonn") << "rows that no token takes stay";
}

std::unique_ptr<Decoder> grown(GoldenModel& g, const VocabularyGrowth& growth, DType dtype = DType::kF32) {
  ArchSpec spec = g.model->spec();
  spec.vocab = growth.rows;
  auto model = std::make_unique<Decoder>(spec, one_process_mesh(), dtype, true);
  load_grown_weights(g.ctx, *model, g.folder, growth);
  return model;
}

TEST(Resize, NewRowsAreTheMeanAndAllElseStays) {
  for (const std::string& name : golden_names()) {
    GoldenModel g(name, choose_isa());
    const VocabularyGrowth growth = grow_vocabulary(61, 57, 63, 64);
    const auto model = grown(g, growth);
    for (Param& p : model->params()) {
      const Tensor& before = g.model->find(p.name)->master;
      const float *now = p.master.as<float>(), *old = before.as<float>();
      if (p.name != "embedding.weight" && p.name != "head.weight") {
        EXPECT_EQ(std::memcmp(now, old, size_t(before.bytes())), 0) << name << " " << p.name;
        continue;
      }
      const int64_t cols = p.shape()[1];
      for (int64_t c = 0; c < cols; ++c) {
        double mean = 0;
        for (int64_t r = 0; r < growth.known; ++r) mean += double(old[r * cols + c]) / double(growth.known);
        for (int64_t r = 0; r < growth.rows; ++r)
          if (growth.is_new(r))  // both sums are in double; the result is rounded to f32 once
            ASSERT_NEAR(now[r * cols + c], mean, 1e-6 * std::abs(mean) + 1e-12) << name << " " << r;
          else
            ASSERT_EQ(now[r * cols + c], old[r * cols + c]) << name << " " << r;
      }
    }
  }
}

double loss_of(GoldenModel& g, Decoder& model) {
  BufferPool pool;
  Tape tape(g.ctx, pool, DType::kF32, TapeMode::kEval);
  std::vector<float> losses(g.ids.size());
  model.loss(tape, g.batch(), g.targets.data(), 1, losses.data());
  double sum = 0;
  for (const float loss : losses) sum += double(loss);
  return sum / double(g.target_count());
}

// The logit of a mean row is the mean of the logits, which is at most the logarithm of their mean exponential. So n new
// tokens add at most n / V of the softmax's sum: the loss of a text rises by at most log(1 + n / V). A soft cap of the
// logits bends them first; the models that have one are left out.
TEST(Resize, OldTextsLoseAtMostTheShareOfTheNewTokens) {
  for (const std::string& name : golden_names()) {
    GoldenModel g(name, choose_isa());
    if (g.model->spec().logit_softcap > 0) continue;
    const double before = loss_of(g, *g.model);
    const double after = loss_of(g, *grown(g, grow_vocabulary(61, 61, 71, 1)));
    EXPECT_GT(after, before) << name;
    EXPECT_LT(after, before + std::log(1 + 10.0 / 61) + 1e-4 * before) << name;  // of two forwards in f32
  }
}

TEST(Resize, ThreadsAndPrecisionChangeNoBit) {
  GoldenModel one("llama2", choose_isa());
  const VocabularyGrowth growth = grow_vocabulary(61, 61, 64, 1);
  const auto expected = grown(one, growth), bf = grown(one, growth, DType::kBF16);
  ThreadPool pool(1);
  ArchSpec spec = one.model->spec();
  spec.vocab = 64;
  Decoder alone(spec, one_process_mesh(), DType::kF32, true);
  Context ctx{pool, silent_log(), choose_isa()};
  load_grown_weights(ctx, alone, one.folder, growth);
  for (const char* name : {"embedding.weight", "head.weight"})
    for (Decoder* other : {bf.get(), &alone})
      EXPECT_EQ(std::memcmp(expected->find(name)->master.data(), other->find(name)->master.data(),
                            size_t(expected->find(name)->master.bytes())), 0) << name;
  // The copy that products read is the rounded master.
  const Param& head = *bf->find("head.weight");
  for (int64_t i = 0; i < head.master.size(); ++i)
    ASSERT_EQ(float(head.compute_copy.as<bf16>()[i]), float(bf16(head.master.as<float>()[i])));
}

TEST(Resize, TheStoredModelMustBeWhatWasSaid) {
  GoldenModel g("llama2", choose_isa());
  expect_error(Code::kMismatch, "model.embed_tokens.weight", [&] { grown(g, grow_vocabulary(60, 60, 64, 1)); });
}

}  // namespace
}  // namespace espalier
