#include "tensor/tensor.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "base/error.h"

namespace espalier {

Shape::Shape(std::initializer_list<int64_t> dims) : Shape(std::vector<int64_t>(dims)) {}

Shape::Shape(const std::vector<int64_t>& dims) : rank_(int(dims.size())) {
  ESP_CHECK(rank_ <= kMaxRank, "rank {}", rank_);
  std::copy(dims.begin(), dims.end(), dims_);
}

int64_t Shape::size() const {
  int64_t n = 1;
  for (int i = 0; i < rank_; ++i) n *= dims_[i];
  return n;
}

bool Shape::operator==(const Shape& other) const {
  return rank_ == other.rank_ && std::equal(dims_, dims_ + rank_, other.dims_);
}

std::string Shape::text() const {
  std::string text = "[";
  for (int i = 0; i < rank_; ++i) text += (i ? ", " : "") + std::to_string(dims_[i]);
  return text + "]";
}

std::shared_ptr<void> allocate_aligned(size_t bytes) {
  constexpr size_t kHuge = size_t{2} << 20;
  const bool huge = bytes >= 2 * kHuge;
  const size_t alignment = huge ? kHuge : 64;
  const size_t rounded = std::max(alignment, (bytes + alignment - 1) / alignment * alignment);
  void* p = std::aligned_alloc(alignment, rounded);
  if (!p) throw error(Code::kNoSpace, "allocating {} bytes of memory: none left; use a smaller model or batch", bytes);
  if (huge) ::madvise(p, rounded, MADV_HUGEPAGE);
  std::memset(p, 0, rounded);
  return {p, std::free};
}

Tensor::Tensor(DType dtype, const Shape& shape) : shape_(shape), dtype_(dtype) {
  owner_ = allocate_aligned(size_t(bytes()));
  data_ = owner_.get();
}

Tensor::Tensor(DType dtype, const Shape& shape, std::shared_ptr<void> owner, void* data)
    : owner_(std::move(owner)), data_(data), shape_(shape), dtype_(dtype) {}

Mat Tensor::mat() {
  const int rank = shape_.rank();
  const int64_t cols = rank == 0 ? 1 : shape_[rank - 1];
  return {data_, dtype_, cols == 0 ? 0 : size() / cols, cols, cols};
}

Tensor Tensor::clone() const {
  Tensor copy(dtype_, shape_);
  if (bytes() > 0) std::memcpy(copy.data(), data_, size_t(bytes()));
  return copy;
}

Tensor Tensor::reshaped(const Shape& shape) const {
  ESP_CHECK(shape.size() == size(), "{} as {}", shape_.text(), shape.text());
  Tensor copy = *this;
  copy.shape_ = shape;
  return copy;
}

}  // namespace espalier
