#include "ops/tape.h"

#include "base/check.h"

namespace espalier {
namespace {
constexpr size_t kBlockBytes = size_t{64} << 10;
}

Mat Var::grad() const {
  ESP_CHECK(has_grad(), "no gradient reached this activation [{}, {}]", rows(), cols());
  return node_->grad;
}

Mat Var::grad_for_writing(DType dtype) const {
  Node& n = *node_;
  if (!has_grad()) {
    n.grad_memory = n.tape->pool_.acquire(rows() * cols() * dtype_size(dtype));
    n.grad = {n.grad_memory.data, dtype, rows(), cols(), cols()};
  }
  ESP_CHECK(n.grad.dtype == dtype, "gradient is {}, wanted {}", dtype_name(n.grad.dtype), dtype_name(dtype));
  return n.grad;
}

Mat Var::first_grad(DType dtype) const {
  ESP_CHECK(!has_grad(), "an activation [{}, {}] with two consumers, one of which only assigns", rows(), cols());
  return grad_for_writing(dtype);
}

bool Var::take_grad(const Var& from) const {
  ESP_CHECK(from.has_grad() && from.rows() == rows() && from.cols() == cols(), "[{}, {}] from [{}, {}]",
            rows(), cols(), from.rows(), from.cols());
  if (has_grad()) return false;
  node_->grad = from.node_->grad;
  node_->grad_memory = std::exchange(from.node_->grad_memory, {});
  return true;
}

void Var::drop_grad() const {
  if (has_grad()) node_->tape->pool_.release(std::exchange(node_->grad_memory, {}));
}

void Var::drop() {
  if (node_ && --node_->holders == 0) node_->tape->free_node(node_);
}

Tape::Tape(Context& ctx, BufferPool& pool, DType dtype, TapeMode mode)
    : ctx_(ctx), pool_(pool), dtype_(dtype), mode_(mode) {}

Tape::~Tape() {
  clear();
  ESP_CHECK(free_nodes_.size() == nodes_.size(), "{} activations outlive their tape",
            nodes_.size() - free_nodes_.size());
}

Var Tape::make(DType dtype, int64_t rows, int64_t cols) {
  if (free_nodes_.empty()) {
    nodes_.push_back(std::make_unique<Var::Node>());
    free_nodes_.reserve(nodes_.capacity());
    free_nodes_.push_back(nodes_.back().get());
  }
  Var::Node* node = free_nodes_.back();
  free_nodes_.pop_back();
  node->tape = this;
  node->value_memory = pool_.acquire(rows * cols * dtype_size(dtype));
  node->value = {node->value_memory.data, dtype, rows, cols, cols};
  return Var(node);
}

void Tape::free_node(Var::Node* node) {
  pool_.release(node->value_memory);
  if (node->grad_memory.data) pool_.release(node->grad_memory);
  *node = {};
  free_nodes_.push_back(node);
}

void Tape::backward_to(size_t mark) {
  while (records_.size() > mark) {
    const Record record = records_.back();
    records_.pop_back();
    record.run(record.state);
    record.destroy(record.state);
  }
}

void Tape::backward() {
  backward_to(0);
  block_ = block_used_ = 0;
}

void Tape::clear() {
  while (!records_.empty()) {
    records_.back().destroy(records_.back().state);
    records_.pop_back();
  }
  block_ = block_used_ = 0;
}

void* Tape::records_memory(size_t bytes, size_t alignment) {
  ESP_CHECK(bytes <= kBlockBytes && alignment <= alignof(std::max_align_t), "{} bytes", bytes);
  size_t at = (block_used_ + alignment - 1) / alignment * alignment;
  if (block_ < blocks_.size() && at + bytes > kBlockBytes) {
    ++block_;
    at = 0;
  }
  if (block_ == blocks_.size()) blocks_.push_back(std::make_unique<std::byte[]>(kBlockBytes));
  block_used_ = at + bytes;
  return blocks_[block_].get() + at;
}

}  // namespace espalier
