#include "ops/tape.h"

#include <vector>

#include <gtest/gtest.h>

#include "ops/dropout.h"

namespace espalier {
namespace {

struct Fixture {
  ThreadPool threads{1};
  Context ctx{threads, silent_log()};
  BufferPool pool;
};

TEST(BufferPool, ServesFromWhatCameBack) {
  BufferPool pool;
  const auto a = pool.acquire(1000), b = pool.acquire(100'000);
  EXPECT_EQ(pool.misses(), 2);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a.data) % 64, 0u);
  pool.release(a);
  pool.release(b);
  const auto c = pool.acquire(990);
  EXPECT_EQ(c.data, a.data);
  const auto d = pool.acquire(70'000);  // 100,000 would waste more than a quarter
  EXPECT_NE(d.data, b.data);
  EXPECT_EQ(pool.misses(), 3);
  EXPECT_EQ(pool.bytes_in_use_max(), a.bytes + b.bytes);
  pool.release(c);
  pool.release(d);
}

TEST(Tape, RunsRecordsLastFirstAndOnce) {
  Fixture f;
  Tape tape(f.ctx, f.pool, DType::kF32, TapeMode::kTrain);
  std::vector<int> order;
  for (int i = 0; i < 3; ++i) tape.record([&order, i] { order.push_back(i); });
  tape.backward();
  EXPECT_EQ(order, (std::vector<int>{2, 1, 0}));
  tape.backward();
  EXPECT_EQ(order.size(), 3u);
}

TEST(Tape, RecordsNothingUnlessTraining) {
  Fixture f;
  for (TapeMode mode : {TapeMode::kEval, TapeMode::kServe}) {
    Tape tape(f.ctx, f.pool, DType::kF32, mode);
    bool ran = false;
    tape.record([&ran] { ran = true; });
    tape.backward();
    EXPECT_FALSE(ran);
    EXPECT_FALSE(tape.recording());
  }
}

TEST(Tape, MemoryGoesWithTheLastHandle) {
  Fixture f;
  Tape tape(f.ctx, f.pool, DType::kF32, TapeMode::kTrain);
  void* first = nullptr;
  {
    const Var x = tape.make(4, 16);
    first = x.value().data;
    tape.record([x] {});
  }
  EXPECT_NE(tape.make(4, 16).value().data, first);  // the record still holds it
  tape.backward();
  const Var again = tape.make(4, 16), other = tape.make(4, 16);
  EXPECT_TRUE(again.value().data == first || other.value().data == first);
  EXPECT_EQ(f.pool.misses(), 2);
}

TEST(Tape, ManyLargeClosuresSurvive) {
  Fixture f;
  Tape tape(f.ctx, f.pool, DType::kF32, TapeMode::kTrain);
  int64_t sum = 0;
  for (int step = 0; step < 2; ++step) {
    for (int i = 0; i < 2000; ++i) tape.record([&sum, numbers = std::array<int64_t, 20>{i}] { sum += numbers[0]; });
    tape.backward();
  }
  EXPECT_EQ(sum, 2 * 2000 * 1999 / 2);
}

TEST(Tape, GradientsAreAssignedFirstAndAddedAfter) {
  Fixture f;
  Tape tape(f.ctx, f.pool, DType::kF32, TapeMode::kTrain);
  const Var x = tape.make(1, 2);
  x.value().row<float>(0)[0] = 1;
  x.value().row<float>(0)[1] = 2;
  const Var y = add(tape, add(tape, x, x), x);  // 3 x
  EXPECT_EQ(y.value().row<float>(0)[1], 6);
  y.grad_for_writing(DType::kF32).row<float>(0)[0] = 10;
  y.grad().row<float>(0)[1] = 20;
  tape.backward();
  EXPECT_EQ(x.grad().row<float>(0)[0], 30);
  EXPECT_EQ(x.grad().row<float>(0)[1], 60);
}

TEST(Tape, RecomputedBlocksRunAgainBackward) {
  Fixture f;
  Tape tape(f.ctx, f.pool, DType::kF32, TapeMode::kTrain);
  const Var x = tape.make(1, 1);
  x.value().row<float>(0)[0] = 5;
  int runs = 0;
  const Var y = tape.recompute(x, [&tape, &runs](const Var& in) {
    ++runs;
    return add(tape, in, in);
  });
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(y.value().row<float>(0)[0], 10);
  y.grad_for_writing(DType::kF32).row<float>(0)[0] = 1;
  tape.backward();
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(x.grad().row<float>(0)[0], 2);
}

TEST(Dropout, KeepsTheMeanAndDrawsTheSameMaskBackward) {
  Fixture f;
  Tape tape(f.ctx, f.pool, DType::kF32, TapeMode::kTrain);
  constexpr int64_t kN = 40'000;
  const Var x = tape.make(100, kN / 100);
  std::fill_n(x.value().row<float>(0), kN, 1.0f);
  const Var y = dropout(tape, x, 0.25f, Rng(1, Purpose::kDropout));
  double sum = 0;
  for (int64_t i = 0; i < kN; ++i) sum += y.value().row<float>(0)[i];
  // A kept number is 4/3; the standard deviation of the mean is sqrt(p / (1 - p) / n) = 0.0029.
  EXPECT_NEAR(sum / kN, 1.0, 5 * 0.0029);
  std::fill_n(y.grad_for_writing(DType::kF32).row<float>(0), kN, 1.0f);
  tape.backward();
  EXPECT_EQ(0, std::memcmp(x.grad().data, y.value().data, kN * sizeof(float)));
}

}  // namespace
}  // namespace espalier
