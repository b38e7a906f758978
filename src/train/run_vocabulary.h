// Which tokenizer a run has, and how many rows its model's vocabulary: what the shards were made with, what the model
// that is continued brings along, and the new tokens that the recipe names must go together.
#pragma once
#include <optional>
#include <string>

#include "base/context.h"
#include "formats/token_dataset.h"
#include "models/companions.h"
#include "models/resize.h"
#include "train/train_config.h"

namespace espalier {

struct RunVocabulary {
  std::optional<Tokenizer> tokenizer;      ///< new tokens included; none where nobody has one
  Companions companions;                   ///< what goes into the model's folder
  std::optional<VocabularyGrowth> growth;  ///< of the model that is continued, where its rows change
};

/// `init` is the model that is continued, of `stored_rows` rows; empty: none. The tokenizer of the shards lies beside
/// them or in the folder above. Throws Error kMismatch where shards, tokenizers and model number other tokens, kUsage
/// for new tokens that there cannot be.
RunVocabulary find_vocabulary(Context& ctx, const TrainConfig& config, const TokenDataset& data,
                              const std::string& init, int64_t stored_rows);

}  // namespace espalier
