#include "tensor/tensor.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"

namespace espalier {
namespace {

TEST(Shape, SizeTextEquality) {
  EXPECT_EQ(Shape().size(), 1);
  EXPECT_EQ(Shape().text(), "[]");
  EXPECT_EQ((Shape{768, 3072}).size(), 768 * 3072);
  EXPECT_EQ((Shape{768, 3072}).text(), "[768, 3072]");
  EXPECT_EQ((Shape{4, 0, 2}).size(), 0);
  EXPECT_TRUE((Shape{2, 3}) == Shape(std::vector<int64_t>{2, 3}));
  EXPECT_FALSE((Shape{2, 3}) == (Shape{3, 2}));
  EXPECT_FALSE((Shape{2}) == (Shape{2, 1}));
  EXPECT_DEATH((Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}), "rank 9");
}

TEST(Tensor, IsZeroedAndAligned) {
  for (const int64_t n : {0, 1, 3, 1000, 3 << 20}) {
    const Tensor t(DType::kF32, {n});
    EXPECT_EQ(reinterpret_cast<uintptr_t>(t.data()) % 64, 0u);
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(t.as<float>()[i], 0.0f);
  }
}

TEST(Tensor, TooMuchMemoryIsAnErrorOfItsOwn) {
  try {
    allocate_aligned(size_t{1} << 60);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kNoSpace);
  }
}

TEST(Tensor, HandlesShareClonesDoNot) {
  Tensor a(DType::kF32, {2, 3});
  Tensor shared = a;
  Tensor copy = a.clone();
  a.as<float>()[4] = 7;
  EXPECT_EQ(shared.as<float>()[4], 7);
  EXPECT_EQ(copy.as<float>()[4], 0);
  EXPECT_EQ(a.reshaped({3, 2}).as<float>(), a.as<float>());
  EXPECT_EQ(a.reshaped({6}).shape().text(), "[6]");
  EXPECT_DEATH(a.reshaped({5}), "\\[2, 3\\] as \\[5\\]");
  EXPECT_DEATH(a.as<bf16>(), "tensor is f32");
}

TEST(Tensor, BorrowedMemoryLivesAsLongAsItsOwner) {
  auto owner = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3, 4});
  const std::weak_ptr<std::vector<float>> watch = owner;
  {
    float* data = owner->data();
    const Tensor t(DType::kF32, {4}, std::move(owner), data);
    EXPECT_EQ(t.as<float>()[3], 4);
    EXPECT_FALSE(watch.expired());
  }
  EXPECT_TRUE(watch.expired());
}

TEST(Tensor, EmptyHandleAndScalars) {
  EXPECT_FALSE(bool(Tensor()));
  EXPECT_TRUE(bool(Tensor(DType::kF32, {0})));
  Tensor scalar(DType::kF32, Shape());
  EXPECT_EQ(scalar.size(), 1);
  EXPECT_EQ(scalar.mat().rows, 1);
  EXPECT_EQ(scalar.mat().cols, 1);
}

TEST(Mat, RowsAreAllButTheLastDimension) {
  Tensor t(DType::kF32, {2, 3, 4});
  for (int64_t i = 0; i < 24; ++i) t.as<float>()[i] = float(i);
  const ConstMat m = std::as_const(t).mat();
  EXPECT_EQ(m.rows, 6);
  EXPECT_EQ(m.cols, 4);
  EXPECT_TRUE(m.contiguous());
  EXPECT_EQ(m.row<float>(5)[3], 23);
  EXPECT_EQ((Tensor(DType::kF32, {5}).mat().rows), 1);
  EXPECT_EQ((Tensor(DType::kF32, {5, 0}).mat().rows), 0);
}

TEST(Mat, PartsShareMemoryAndStayInside) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kU8}) {
    Tensor t(dtype, {6, 8});
    const Mat m = t.mat(), part = sub_cols(sub_rows(m, 2, 3), 4, 2);
    EXPECT_EQ(part.rows, 3);
    EXPECT_EQ(part.cols, 2);
    EXPECT_FALSE(part.contiguous());
    EXPECT_TRUE(sub_rows(part, 0, 1).contiguous()) << "one row has no stride";
    const auto offset = static_cast<const char*>(part.data) - static_cast<const char*>(m.data);
    EXPECT_EQ(offset, (2 * 8 + 4) * dtype_size(dtype));
    EXPECT_EQ(sub_rows(m, 6, 0).rows, 0);
    EXPECT_DEATH(sub_rows(m, 4, 3), "rows 4\\+3 of 6");
    EXPECT_DEATH(sub_cols(m, -1, 3), "cols -1\\+3 of 8");
  }
}

TEST(View, IndexesRowMajor) {
  std::vector<int> data(24);
  for (int i = 0; i < 24; ++i) data[size_t(i)] = i;
  const View<int, 3> view(data.data(), {2, 3, 4});
  EXPECT_EQ(view.size(), 24);
  EXPECT_EQ(view.strides, (std::array<int64_t, 3>{12, 4, 1}));
  EXPECT_EQ(view(1, 2, 3), 23);
  view(0, 1, 0) = -1;
  EXPECT_EQ(data[4], -1);
}

}  // namespace
}  // namespace espalier
