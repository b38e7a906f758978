// The tape: forward calls compute at once and, while recording, leave behind a record of how to go backward.
//
// The rule of gradients, written once: gradients of parameters accumulate (+=); the gradient of an activation is
// assigned by the first record that reaches it (the last one forward) and accumulated by the others.
//
// A Var is a counted handle to a matrix and its gradient. Their memory returns to the pool when the last handle goes:
// a record holds what its backward needs and is destroyed as soon as it has run; without recording, activations go
// with the scope that made them. So the same model code trains, evaluates and serves.
#pragma once
#include <cstddef>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "base/context.h"
#include "kernels/kernels.h"
#include "ops/buffer_pool.h"
#include "tensor/view.h"

namespace espalier {

class Tape;

/// Handle to an activation [rows, cols] and its gradient. Copies share.
class Var {
 public:
  Var() = default;
  Var(const Var& other) : node_(other.node_) { hold(); }
  Var(Var&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  Var& operator=(Var other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  ~Var() { drop(); }

  explicit operator bool() const { return node_ != nullptr; }
  Mat value() const { return node_->value; }
  int64_t rows() const { return node_->value.rows; }
  int64_t cols() const { return node_->value.cols; }
  DType dtype() const { return node_->value.dtype; }

  bool has_grad() const { return node_->grad_memory.data != nullptr; }
  /// The gradient; has_grad() must hold.
  Mat grad() const;
  /// The gradient's memory in `dtype`, made if absent (contents undefined then: the caller assigns).
  Mat grad_for_writing(DType dtype) const;
  /// The same for an op that can only assign: its input must have no other consumer.
  Mat first_grad(DType dtype) const;
  /// Moves the gradient of `from` here if there is none yet (the residual stream's y = x + f passes dy on as dx).
  /// False when this has one already: the caller must add.
  bool take_grad(const Var& from) const;
  /// Gives the gradient's memory back early.
  void drop_grad() const;

 private:
  friend class Tape;
  struct Node {
    Mat value, grad;
    BufferPool::Buffer value_memory, grad_memory;
    Tape* tape = nullptr;
    int holders = 0;
  };
  explicit Var(Node* node) : node_(node) { hold(); }
  void hold() {
    if (node_) ++node_->holders;
  }
  void drop();
  Node* node_ = nullptr;
};

enum class TapeMode {
  kTrain,  ///< records; fast products
  kEval,   ///< does not record; the same products, so the same logits as training
  kServe,  ///< does not record; products whose rows do not depend on each other (batched equals single)
};

class Tape {
 public:
  /// `dtype` is the compute dtype of activations between the residual stream's f32.
  Tape(Context& ctx, BufferPool& pool, DType dtype, TapeMode mode);
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  Context& ctx() const { return ctx_; }
  const Kernels& kernels() const { return espalier::kernels(ctx_); }
  DType dtype() const { return dtype_; }
  TapeMode mode() const { return mode_; }
  bool recording() const { return mode_ == TapeMode::kTrain && paused_ == 0; }

  /// An activation of undefined contents.
  Var make(DType dtype, int64_t rows, int64_t cols);
  Var make(int64_t rows, int64_t cols) { return make(dtype_, rows, cols); }

  /// Appends a record; `backward()` is called once, in reverse order of recording. Does nothing when not recording.
  template <class F>
  void record(F&& backward) {
    if (!recording()) return;
    using Fn = std::decay_t<F>;
    void* state = new (records_memory(sizeof(Fn), alignof(Fn))) Fn(std::forward<F>(backward));
    records_.push_back({state, [](void* s) { (*static_cast<Fn*>(s))(); },
                        [](void* s) { static_cast<Fn*>(s)->~Fn(); }});
  }

  /// Runs and removes all records, last first.
  void backward();
  /// Removes all records without running them.
  void clear();

  /// Activation recomputation (Chen et al. 2016): runs y = block(x) without recording and keeps only x; the backward
  /// pass runs the block again. `block(const Var&) -> Var` is copied and must give the same numbers twice.
  template <class Block>
  Var recompute(const Var& x, Block block);

 private:
  friend class Var;
  struct Record {
    void* state;
    void (*run)(void*);
    void (*destroy)(void*);
  };
  size_t mark() const { return records_.size(); }
  void backward_to(size_t mark);
  void* records_memory(size_t bytes, size_t alignment);
  void free_node(Var::Node* node);

  Context& ctx_;
  BufferPool& pool_;
  DType dtype_;
  TapeMode mode_;
  int paused_ = 0;
  std::vector<Record> records_;
  // Closures live in blocks that are kept and refilled from the start when no record is left.
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  size_t block_ = 0, block_used_ = 0;
  std::vector<std::unique_ptr<Var::Node>> nodes_;
  std::vector<Var::Node*> free_nodes_;
};

template <class Block>
Var Tape::recompute(const Var& x, Block block) {
  if (!recording()) return block(x);
  ++paused_;
  Var y = block(x);
  --paused_;
  record([this, x, y, block] {
    const size_t before = mark();
    Var again = block(x);
    ESP_CHECK(again.take_grad(y), "a recomputed block returned its input");
    backward_to(before);
  });
  return y;
}

}  // namespace espalier
