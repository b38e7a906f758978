// The weights of a .gguf that run from their own blocks: which they are, and their panels (models/panel_packing.h).
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/weight_source.h"
#include "ops/quantised_weight.h"

namespace espalier {

using QuantisedWeights = std::map<std::string, std::shared_ptr<const QuantisedWeight>>;

/// Some rows of a weight as a source's tensor has them: our row i is the tensor's row `first + i`.
struct BlockPart {
  std::string tensor;
  int64_t first = 0, rows = 0;
};

/// A weight to be: its parts in the order of our rows, all of them in blocks.
struct BlockWeight {
  std::string name;
  int64_t cols = 0;
  bool multiplied = true;  ///< false: rows are only looked up, and get no panels
  std::vector<BlockPart> parts;
};

/// `packed`: all panels are made at once, in one piece of memory; otherwise they are made as products need them, and
/// the file's pages are all the memory that the weights take. The source is kept. Error kBadData naming the tensor
/// where a scale is not finite (not looked for unless packed).
QuantisedWeights make_quantised(Context& ctx, std::shared_ptr<const WeightSource> source,
                                const std::vector<BlockWeight>& weights, bool packed);

}  // namespace espalier
