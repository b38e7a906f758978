// Everything a run decides before it allocates: its data, its architecture, its precision, what it needs and whether it
// fits, and where it takes up an earlier run. --dry-run stops here.
#pragma once
#include <optional>
#include <string>

#include "base/context.h"
#include "formats/checkpoint.h"
#include "formats/token_dataset.h"
#include "train/compute_choice.h"
#include "train/memory_plan.h"
#include "train/run_vocabulary.h"
#include "train/train_config.h"
#include "train/train_state.h"

namespace espalier {

struct TrainSetup {
  TrainConfig config;  ///< resolved: compute.dtype is decided
  TokenDataset train;
  std::optional<TokenDataset> val;
  ArchSpec spec;
  std::string init;  ///< model folder or .gguf to begin from; empty: random weights
  RunVocabulary vocabulary;
  ComputeChoice compute;
  MemoryPlan plan;
  int64_t available_bytes = 0;
  std::optional<Checkpoint> checkpoint;  ///< to resume from
  TrainState state;                      ///< of the checkpoint, or of a beginning
};

/// Throws kUsage for settings that contradict each other, kMismatch for data, tokenizer, model and run folder that do
/// not belong together, and what the readers throw.
TrainSetup prepare_training(Context& ctx, const TrainConfig& config);

}  // namespace espalier
