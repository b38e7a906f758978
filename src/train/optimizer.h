// The optimizer: for each parameter a rule, its moments, and one sweep that changes the weight and refreshes its
// compute copy. AdamW (Loshchilov, Hutter 2019), LAMB (You et al. 2020), Muon (Jordan et al. 2024) for matrices with
// AdamW for the rest. Matrices and embeddings decay; norms and biases never do.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "comm/mesh.h"
#include "models/decoder.h"
#include "train/muon.h"
#include "train/train_config.h"

namespace espalier {

/// A tensor of the training state under the name that checkpoints give it.
struct StateTensor {
  std::string name;
  Tensor* tensor;
};

class Optimizer {
 public:
  /// Moments are zero. `model` must outlive it and be trained.
  Optimizer(Decoder& model, const OptimConfig& config);

  /// Sums the gradients over the data group and returns their global norm; squares()[i] is parameter i's share. The
  /// order is fixed, so the norm has the same bits for any number of threads.
  double reduce_gradients(Context& ctx, const Mesh& mesh);
  const std::vector<double>& squares() const { return squares_; }

  /// One update with the gradients times `grad_scale` at rate_factor x the peak rate. `before(i)` is called before
  /// parameter i or its moments change.
  void update(Context& ctx, double rate_factor, double grad_scale, FunctionRef<void(size_t)> before);

  /// Updates so far: what bias correction counts. Skipped steps do not count.
  int64_t updates() const { return updates_; }
  void set_updates(int64_t updates) { updates_ = updates; }

  /// The weight and moments of parameter i: "model.NAME", "optimizer.m.NAME", "optimizer.v.NAME".
  std::vector<StateTensor> state_of(size_t i);
  size_t size() const { return slots_.size(); }
  /// Of moments and scratch.
  int64_t bytes() const;

 private:
  enum class Rule { kAdam, kLamb, kMuon };
  struct Slot {
    Param* param;
    Rule rule;
    double decay;
    Tensor m, v;                  // v is empty under muon
    std::vector<int64_t> pieces;  // muon: rows of each matrix fused into this one
  };
  struct Step {
    double rate_factor, grad_scale;
  };

  void update_adam(Context& ctx, Slot& slot, const Step& step);
  void update_lamb(Context& ctx, Slot& slot, const Step& step);
  void update_muon(Context& ctx, Slot& slot, const Step& step);
  AdamHyper hyper_of(const Slot& slot, const Step& step) const;

  OptimConfig config_;
  std::vector<Slot> slots_;
  std::vector<double> squares_;
  Tensor scratch_;  // lamb, muon: an update as long as the largest parameter's
  MuonScratch muon_;
  int64_t updates_ = 0;
};

}  // namespace espalier
