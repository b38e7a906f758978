// What a resume needs beyond weights and moments, as the JSON of a checkpoint, and the two ways between a checkpoint
// and a run: everything that makes the next step the same bits as if nothing had happened.
#pragma once
#include <optional>

#include "base/context.h"
#include "base/json.h"
#include "formats/checkpoint.h"
#include "train/checkpointing.h"
#include "train/guard.h"
#include "train/optimizer.h"

namespace espalier {

struct Best {
  int64_t step = 0;
  double val_loss = 0;
};

/// What the order of samples stands on. All 0: a checkpoint that does not say.
struct DataIdentity {
  int64_t tokens = 0;
  uint64_t vocab_hash = 0;   ///< 0 too where the shards do not say
  uint64_t fingerprint = 0;  ///< TokenDataset::fingerprint
};

struct TrainState {
  int64_t step = 0;      ///< steps done
  int64_t samples = 0;   ///< the loader's cursor
  int64_t updates = 0;   ///< the optimizer's: steps without the skipped ones
  double trained_s = 0;  ///< time spent training, for max_minutes
  Guard::State guard;
  std::optional<Best> best;  ///< of the checkpoints saved so far
  std::string dtype;         ///< of products, as decided at the start
  DataIdentity data;         ///< of the training shards
};

Json state_to_json(const TrainState& state);
/// Throws kBadData naming `what` and the field.
TrainState state_from_json(const Json& json, const std::string& what);

/// The tensors of a run, a group a parameter.
std::vector<CheckpointGroup> checkpoint_groups(Optimizer& optimizer);

/// Weights, moments and the optimizer's count from a checkpoint. Throws kMismatch naming the tensor that is missing or
/// of another shape: the checkpoint is of another model or optimizer.
void restore(Context& ctx, const Checkpoint& checkpoint, const TrainState& state, Decoder& model, Optimizer& optimizer);

}  // namespace espalier
