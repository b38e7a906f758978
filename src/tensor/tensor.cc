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

namespace {

[[noreturn]] void throw_no_memory(size_t bytes) {
  throw error(Code::kNoSpace, "allocating {} bytes of memory: none left; use a smaller model or batch", bytes);
}

constexpr size_t kHugePage = size_t{2} << 20;

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

/// Pages of the system's, which are zero when they are first touched: by the threads that fill them, and not by the one
/// that asks. On a machine whose memory must first be found, that is most of the time that loading a model takes.
std::shared_ptr<void> map_huge_pages(size_t bytes) {
  const size_t rounded = round_up(bytes, kHugePage), reserved = rounded + kHugePage;
  void* mapped = ::mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw_no_memory(bytes);
  const size_t before = round_up(reinterpret_cast<uintptr_t>(mapped), kHugePage) - reinterpret_cast<uintptr_t>(mapped);
  char* p = static_cast<char*>(mapped) + before;
  if (before > 0) ::munmap(mapped, before);
  if (before < kHugePage) ::munmap(p + rounded, kHugePage - before);
  ::madvise(p, rounded, MADV_HUGEPAGE);
  return {p, [rounded](void* q) { ::munmap(q, rounded); }};
}

}  // namespace

std::shared_ptr<void> allocate_aligned(size_t bytes) {
  if (bytes >= 2 * kHugePage) return map_huge_pages(bytes);
  const size_t rounded = std::max(size_t{64}, round_up(bytes, 64));
  void* p = std::aligned_alloc(64, rounded);
  if (!p) throw_no_memory(bytes);
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
