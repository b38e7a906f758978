// Guesses by a smaller model that keeps a token tree (engine/token_tree.h) and its cache from verdict to verdict
// (SwiftSpec, section 4.2, "evolving tree cache"). The cache holds the text, then the tree's nodes in the order in
// which passes saw them; a verdict inside the tree makes its path part of the text and leaves what is below it, moved
// together; nothing that is still valid is computed again. A verdict outside starts a fresh root.
#pragma once
#include <optional>
#include <vector>

#include "engine/drafter.h"
#include "engine/token_tree.h"
#include "models/decoder.h"

namespace espalier {

struct ModelDrafterOptions {
  int64_t width = 4;       ///< nodes that one pass expands
  int64_t children = 4;    ///< guesses that it takes from each
  int64_t most_steps = 8;  ///< passes before a proposal
  int64_t head_rows = 0;   ///< guess among the first so many ids only (the frequent ones of a BPE vocabulary); 0: all
  int64_t most_nodes = 256;
};

class ModelDrafter : public Drafter {
 public:
  /// `vocab` is that of the model that verifies: ids from there on are never guessed. Both are borrowed.
  ModelDrafter(Context& ctx, Decoder& model, int64_t vocab, const ModelDrafterOptions& options = {});

  /// Grows the tree for as long as a pass promises more tokens than its time is worth, then gives the heaviest nodes.
  Draft propose(std::span<const int32_t> text, int64_t most, const PassCosts& costs) override;
  DrafterCounters counters() const override { return counters_; }

  // The same in parts, for who lets the draft run beside the model (engine/async_drafter.h).

  /// Takes note of the text: keeps the tree below what was drawn, or plants a new one.
  void follow(std::span<const int32_t> text);
  /// One pass over the heaviest nodes that none has seen. False where the tree is full or the context ends.
  bool grow();
  /// The heaviest nodes, at most `most`.
  Draft heaviest(int64_t most) const;

  const TokenTree& tree() const { return tree_; }
  const KvCache& cache() const { return cache_; }
  /// Tokens of the text that the cache holds.
  int64_t prefix() const { return int64_t(prefix_.size()); }

 private:
  bool worth_a_pass(int64_t most, int64_t steps, const PassCosts& costs) const;
  std::optional<int32_t> judge(int32_t node, int32_t token);
  void start_over(std::span<const int32_t> text);
  void adopt(int32_t node);
  void read_text();
  void expand(std::span<const int32_t> nodes);
  void forward(std::span<const int32_t> ids, std::span<const int32_t> positions, const KeyPaths* paths, int64_t scored);
  void add_children(int32_t node, int64_t row);

  Context& ctx_;
  Decoder& model_;
  ModelDrafterOptions options_;
  int64_t vocab_;
  BufferPool buffers_;
  KvCache cache_;
  Tensor logits_;                 // f32 [width, vocab_]
  std::vector<float> log_sums_;   // log of the sum of exp of each row
  std::vector<int32_t> prefix_;   // the text's tokens in the cache
  std::vector<int32_t> unread_;   // those behind them, but for the last, which is the root
  TokenTree tree_;
  double pass_s_ = 0;             // of late
  DrafterCounters counters_;
};

}  // namespace espalier
