#include "comm/communicator.h"

#include <vector>

#include <gtest/gtest.h>

#include "comm/mesh.h"

namespace espalier {
namespace {

TEST(OneProcess, CollectivesAreTheIdentity) {
  const Mesh mesh = one_process_mesh();
  Communicator& group = *mesh.data;
  EXPECT_EQ(group.rank(), 0);
  EXPECT_EQ(group.size(), 1);
  std::vector<float> x = {1, 2, 3, 4, 5, 6}, y(6);
  group.all_reduce(mat(x.data(), 2, 3), ReduceOp::kSum);
  group.broadcast(mat(x.data(), 2, 3), 0);
  EXPECT_EQ(x, (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(group.all_reduce(2.5, ReduceOp::kMax), 2.5);
  group.all_gather(mat(std::as_const(x).data(), 2, 3), mat(y.data(), 2, 3));
  EXPECT_EQ(x, y);
}

TEST(OneProcess, CopiesBetweenStrides) {
  const Mesh mesh = one_process_mesh();
  const std::vector<float> x = {1, 2, 9, 3, 4, 9};
  std::vector<float> y(4);
  mesh.tensor->reduce_scatter(sub_cols(mat(x.data(), 2, 3), 0, 2), mat(y.data(), 2, 2));
  EXPECT_EQ(y, (std::vector<float>{1, 2, 3, 4}));
}

}  // namespace
}  // namespace espalier
