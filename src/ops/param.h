// Param: one weight of a model, its gradient, and how it would be split over ranks. Ops reach the numbers through
// compute(), so that a bf16 copy can stand behind it, or ask for its quantised blocks.
#pragma once
#include <memory>
#include <string>

#include "ops/quantised_weight.h"
#include "tensor/tensor.h"

namespace espalier {

/// How a [out, in] matrix is cut over the ranks of a tensor-parallel group (Shoeybi et al. 2019).
enum class Split {
  kNone,     ///< every rank holds the whole
  kRows,     ///< by output: column-parallel linear, embeddings by vocabulary
  kColumns,  ///< by input: row-parallel linear
};

struct Param {
  std::string name;     ///< ours: "layers.3.attention.qkv.weight"
  Tensor master;        ///< f32; empty in a model that is only run
  Tensor compute_copy;  ///< the compute dtype's copy; empty when that is the master itself
  std::shared_ptr<const QuantisedWeight> quantised;  ///< instead of master and copy, in a model that is only run
  Tensor grad;          ///< f32, same shape; empty when not trained. Gradients accumulate into it
  Split split = Split::kNone;
  bool is_matrix = false;  ///< two-dimensional and multiplied (not a norm, bias): decays, and Muon may take it
  bool is_embedding = false;

  const Shape& shape() const {
    return quantised ? quantised->shape() : master ? master.shape() : compute_copy.shape();
  }
  int64_t size() const { return shape().size(); }
  bool trained() const { return bool(grad); }
  /// What products read.
  ConstMat compute() const { return compute_copy ? compute_copy.mat() : master.mat(); }
  /// What norms and embeddings read: f32 where there is one.
  ConstMat exact() const { return master ? master.mat() : compute_copy.mat(); }
};

}  // namespace espalier
