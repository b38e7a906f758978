#include "models/diff.h"

#include <cmath>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "formats/safetensors_writer.h"
#include "formats/test_folder.h"

namespace espalier {
namespace {

using Tensors = std::map<std::string, Tensor>;

template <class T = float>
Tensor tensor(const Shape& shape, uint64_t seed) {
  Tensor t(DTypeOf<T>::value, shape);
  const Rng rng(seed, Purpose::kTest);
  for (int64_t i = 0; i < t.size(); ++i) t.as<T>()[i] = T(rng.normal(uint64_t(i)));
  return t;
}

struct Pair {
  TestFolder folder;
  ThreadPool pool{2};
  Context ctx{pool, silent_log()};

  SafetensorsFolder write(const std::string& name, const Tensors& tensors) {
    const std::string path = folder / (name + ".safetensors");
    std::vector<PlannedTensor> plan;
    for (const auto& [key, t] : tensors) plan.push_back({key, t.dtype(), t.shape()});
    SafetensorsWriter writer(path, plan);
    for (const auto& [key, t] : tensors) writer.write(key, t);
    writer.finish();
    return SafetensorsFolder::open(path);
  }
  ModelDiff diff(const Tensors& a, const Tensors& b) { return diff_models(ctx, write("a", a), write("b", b)); }
};

TEST(Diff, AModelEqualsItself) {
  const Tensors a = {{"w", tensor({30, 40}, 1)}, {"v", tensor<bf16>({7}, 2)}, {"empty", Tensor(DType::kF32, {0, 3})}};
  const ModelDiff d = Pair().diff(a, a);
  EXPECT_TRUE(d.identical());
  EXPECT_EQ(d.same, 3);
  EXPECT_EQ(d.relative_l2, 0);
}

TEST(Diff, DistancesEqualTheirDefinitions) {
  const Tensor x = tensor({300, 401}, 1), y = tensor({300, 401}, 2);
  const ModelDiff d = Pair().diff({{"w", x}}, {{"w", y}});
  double difference = 0, a = 0, b = 0, dot = 0, most = 0;
  for (int64_t i = 0; i < x.size(); ++i) {
    const double p = x.as<float>()[i], q = y.as<float>()[i];
    difference += (q - p) * (q - p);
    a += p * p;
    b += q * q;
    dot += p * q;
    most = std::max(most, std::abs(q - p));
  }
  ASSERT_EQ(d.tensors.size(), 1u);
  EXPECT_EQ(d.tensors[0].kind, DiffKind::kValues);
  EXPECT_EQ(d.tensors[0].max_abs, most);
  // f64 sums of 120,300 terms in two orders.
  EXPECT_NEAR(d.tensors[0].relative_l2, std::sqrt(difference / a), 1e-11);
  EXPECT_NEAR(d.tensors[0].cosine, dot / std::sqrt(a * b), 1e-11);
  EXPECT_NEAR(d.relative_l2, d.tensors[0].relative_l2, 1e-15);
}

TEST(Diff, EveryKindIsToldAndTheFarthestComesFirst) {
  Tensor near = tensor({50}, 1).clone(), far = tensor({50}, 1).clone(), minus = tensor({50}, 1).clone();
  near.as<float>()[3] += 1e-3f;
  far.as<float>()[3] += 5;
  for (int64_t i = 0; i < 50; ++i) minus.as<float>()[i] *= -1;
  Tensor rounded(DType::kF32, {9});
  const Tensor half = tensor<bf16>({9}, 5);
  for (int64_t i = 0; i < 9; ++i) rounded.as<float>()[i] = float(half.as<bf16>()[i]);
  Tensor nan = tensor({50}, 1).clone();
  nan.as<float>()[0] = NAN;

  const Tensor base = tensor({50}, 1);
  const ModelDiff d = Pair().diff(
      {{"same", base}, {"near", base}, {"far", base}, {"minus", base}, {"nan", base}, {"dtype", half}, {"shape", base},
       {"gone", base}},
      {{"same", base}, {"near", near}, {"far", far}, {"minus", minus}, {"nan", nan}, {"dtype", rounded},
       {"shape", tensor({25, 2}, 1)}, {"new", base}});
  std::vector<std::string> order;
  for (const TensorDiff& t : d.tensors) order.push_back(t.name + ":" + diff_kind_name(t.kind));
  EXPECT_EQ(order, (std::vector<std::string>{"new:only B", "gone:only A", "shape:shape", "nan:values", "minus:values",
                                             "far:values", "near:values", "dtype:dtype", "same:same"}));
  EXPECT_FALSE(d.identical());
  EXPECT_DOUBLE_EQ(d.tensors[4].relative_l2, 2);
  EXPECT_DOUBLE_EQ(d.tensors[4].cosine, -1);
  EXPECT_TRUE(std::isnan(d.tensors[3].max_abs));
  EXPECT_NEAR(d.tensors[6].max_abs, 1e-3, 1e-6);
  EXPECT_EQ(d.tensors[7].max_abs, 0);
}

TEST(Diff, AgainstAllZerosTheDistanceIsInfinite) {
  const ModelDiff d = Pair().diff({{"w", Tensor(DType::kF32, {3})}}, {{"w", tensor({3}, 1)}});
  EXPECT_TRUE(std::isinf(d.tensors[0].relative_l2));
}

}  // namespace
}  // namespace espalier
