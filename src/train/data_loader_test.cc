#include "train/data_loader.h"

#include <cstdlib>
#include <set>

#include "train/test_data.h"

namespace espalier {
namespace {

struct Data {
  explicit Data(const TestShards& shape = {}) {
    write_test_shards(folder / "a.tokens", shape);
    TestShards other = shape;
    other.seed += 1;
    write_test_shards(folder / "b.tokens", other);
    dataset = TokenDataset::open(folder.path());
  }
  TestFolder folder;
  TokenDataset dataset = {};
};

std::vector<int32_t> ids_of(const TrainingBatch& batch) {
  std::vector<int32_t> all;
  for (int64_t m = 0; m < batch.shape().micro_batches; ++m) {
    const Batch b = batch.micro_batch(m);
    all.insert(all.end(), b.ids, b.ids + b.count());
  }
  return all;
}

TEST(DataOrder, VisitsEachSampleOnceAnEpochInAnotherOrderEachTime) {
  for (const int64_t n : {1, 2, 3, 5, 16, 17, 1000, 1025}) {
    const DataOrder order(3, n);
    std::vector<int64_t> epochs[2];
    for (int64_t epoch = 0; epoch < 2; ++epoch) {
      std::set<int64_t> seen;
      for (int64_t i = 0; i < n; ++i) {
        const int64_t sample = order.sample_at(epoch * n + i);
        EXPECT_GE(sample, 0);
        EXPECT_LT(sample, n);
        seen.insert(sample);
        epochs[epoch].push_back(sample);
      }
      EXPECT_EQ(int64_t(seen.size()), n);
    }
    if (n >= 16) {
      EXPECT_NE(epochs[0], epochs[1]);
    }
  }
}

TEST(DataOrder, IsFarFromSortedAndDependsOnTheSeed) {
  const int64_t n = 4096;
  const DataOrder a(1, n), b(2, n);
  int64_t neighbours = 0, same = 0;
  for (int64_t i = 0; i + 1 < n; ++i) {
    neighbours += std::abs(a.sample_at(i + 1) - a.sample_at(i)) == 1;
    same += a.sample_at(i) == b.sample_at(i);
  }
  // In a random permutation 2 neighbours and 1 equal place are expected, each Poisson: 12 and 9 have p < 1e-6.
  EXPECT_LT(neighbours, 12);
  EXPECT_LT(same, 9);
}

TEST(TrainingBatch, ResetsPositionsAndAttentionAtDocumentBorders) {
  TestFolder folder;
  {
    TokenShardWriter writer(folder / "a.tokens", {.vocab_size = 50});
    for (const std::vector<int32_t>& document : {std::vector<int32_t>{1, 2, 3}, {4}, {5, 6, 7, 8}, {9, 10}})
      writer.append(document);
    writer.finish();
  }
  const TokenDataset dataset = TokenDataset::open(folder.path());
  TrainingBatch batch({.sequences = 1, .context = 8});
  batch.fill(0, dataset, 1);
  batch.count_targets();
  const Batch b = batch.micro_batch(0);
  const auto list = [&](const int32_t* from) { return std::vector<int32_t>(from, from + 8); };
  EXPECT_EQ(list(b.ids), (std::vector<int32_t>{2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(list(batch.targets(0)), (std::vector<int32_t>{3, -1, -1, 6, 7, 8, -1, 10}));
  EXPECT_EQ(list(b.positions), (std::vector<int32_t>{0, 1, 0, 0, 1, 2, 3, 0}));
  EXPECT_EQ(list(b.first_key), (std::vector<int32_t>{0, 0, 2, 3, 3, 3, 3, 7}));
  EXPECT_EQ(batch.target_count(), 5);

  TrainingBatch unpacked({.sequences = 1, .context = 8, .pack_documents = false});
  unpacked.fill(0, dataset, 1);
  EXPECT_EQ(list(unpacked.targets(0)), (std::vector<int32_t>{3, 4, 5, 6, 7, 8, 9, 10}));
  EXPECT_EQ(list(unpacked.micro_batch(0).positions), (std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(list(unpacked.micro_batch(0).first_key), std::vector<int32_t>(8, 0));
}

TEST(DataLoader, LearnsEveryTokenOnceAnEpoch) {
  const Data data;
  const int64_t t = 16, samples = sample_count(data.dataset, t);
  DataLoader loader(data.dataset, {.shape = {.sequences = 1, .context = t, .pack_documents = false}, .seed = 5});
  std::multiset<std::vector<int32_t>> rows, expected;
  for (int64_t i = 0; i < samples; ++i) {
    const TrainingBatch& batch = loader.next();
    rows.insert(std::vector<int32_t>(batch.targets(0), batch.targets(0) + t));
    std::vector<int32_t> row(static_cast<size_t>(t));
    data.dataset.read(i * t + 1, t, row.data());
    expected.insert(row);
  }
  EXPECT_EQ(rows, expected);
  EXPECT_EQ(loader.cursor(), samples);
  EXPECT_DOUBLE_EQ(loader.epoch(), 1);
}

TEST(DataLoader, ResumesAnywhereAcrossEpochs) {
  const Data data;
  LoaderOptions options{.shape = {.sequences = 3, .context = 32, .micro_batches = 2}, .seed = 5};
  std::vector<std::vector<int32_t>> steps;
  std::vector<int64_t> cursors;
  {
    DataLoader loader(data.dataset, options);
    const int64_t count = 2 * loader.samples_per_epoch() / 6 + 2;
    for (int64_t i = 0; i < count; ++i) {
      steps.push_back(ids_of(loader.next()));
      cursors.push_back(loader.cursor());
    }
  }
  for (size_t from = 0; from + 1 < steps.size(); from += 3) {
    options.cursor = cursors[from];
    DataLoader loader(data.dataset, options);
    for (size_t i = from + 1; i < std::min(from + 4, steps.size()); ++i) {
      EXPECT_EQ(ids_of(loader.next()), steps[i]);
      EXPECT_EQ(loader.cursor(), cursors[i]);
    }
  }
}

TEST(DataLoader, RanksAndMicroBatchesShareOutTheSameSamples) {
  const Data data;
  const BatchShape whole{.sequences = 8, .context = 16};
  DataLoader one(data.dataset, {.shape = whole, .seed = 9});
  DataLoader accumulated(data.dataset, {.shape = {.sequences = 2, .context = 16, .micro_batches = 4}, .seed = 9});
  BatchShape half = whole;
  half.sequences = 4;
  DataLoader rank0(data.dataset, {.shape = half, .seed = 9, .rank = 0, .ranks = 2});
  DataLoader rank1(data.dataset, {.shape = half, .seed = 9, .rank = 1, .ranks = 2});
  for (int step = 0; step < 5; ++step) {
    const std::vector<int32_t> expected = ids_of(one.next());
    EXPECT_EQ(ids_of(accumulated.next()), expected);
    std::vector<int32_t> both = ids_of(rank0.next());
    const std::vector<int32_t> second = ids_of(rank1.next());
    both.insert(both.end(), second.begin(), second.end());
    EXPECT_EQ(both, expected);
    EXPECT_EQ(rank0.cursor(), one.cursor());
  }
}

TEST(DataLoader, SaysWhatIsWrongWithTheData) {
  const Data data;
  expect_error(Code::kMismatch, "make no sample of 100000",
               [&] { DataLoader loader(data.dataset, {.shape = {.sequences = 1, .context = 100000}}); });
  // A foreign shard does not say its vocabulary: the id is found when it is read, on the loader's thread.
  TestFolder folder;
  std::vector<uint16_t> ids(200, 3);
  ids[150] = 61;
  FileWriter file(folder / "x.bin");
  file.write(ids.data(), 400);
  file.close(false);
  const TokenDataset foreign = TokenDataset::open(folder / "x.bin", 61);
  expect_error(Code::kBadData, "61", [&] {
    DataLoader loader(foreign, {.shape = {.sequences = 1, .context = 8}});
    for (int i = 0; i < 24; ++i) loader.next();
  });
}

}  // namespace
}  // namespace espalier
