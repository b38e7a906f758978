// Communicator: a group of ranks that work together. Layers, optimizer and loop are given one from the start; with one
// process it costs nothing, and MPI comes as another instance of the same interface.
#pragma once
#include <memory>

#include "tensor/view.h"

namespace espalier {

enum class ReduceOp { kSum, kMax };

/// Collectives are called by every rank of the group in the same order, with equal shapes and dtypes. A peer that fails
/// is an Error kPeer that names it.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// x = op over ranks of x, in place. f32 or bf16 (summed in f32); f64 by the scalar overload.
  virtual void all_reduce(Mat x, ReduceOp op) = 0;
  virtual double all_reduce(double x, ReduceOp op) = 0;
  /// out [size * rows, cols]: the ranks' `in` [rows, cols] one after another.
  virtual void all_gather(ConstMat in, Mat out) = 0;
  /// out [rows, cols]: this rank's rows of the sum over ranks of `in` [size * rows, cols].
  virtual void reduce_scatter(ConstMat in, Mat out) = 0;
  /// x of rank `root` to all.
  virtual void broadcast(Mat x, int root) = 0;
  /// Returns when all ranks have called it.
  virtual void barrier() = 0;
};

/// The group of one: every collective is the identity.
std::unique_ptr<Communicator> one_process();

}  // namespace espalier
