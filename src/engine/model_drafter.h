// Guesses by a smaller model that keeps a token tree (engine/token_tree.h) and its cache from verdict to verdict
// (SwiftSpec, section 4.2, "evolving tree cache"). The cache holds the text, then the tree's nodes in the order in
// which passes saw them; a verdict inside the tree makes its path part of the text and leaves what is below it, moved
// together; nothing that is still valid is computed again. A verdict outside starts a fresh root.
#pragma once
#include <optional>
#include <vector>

#include "engine/drafter.h"
#include "engine/outcome_frontier.h"
#include "engine/token_tree.h"
#include "models/decoder.h"

namespace espalier {

struct ModelDrafterOptions {
  int64_t width = 4;       ///< nodes that one pass expands
  int64_t children = 4;    ///< guesses that it takes from each
  int64_t most_steps = 8;  ///< passes before a proposal
  int64_t head_rows = 0;   ///< guess among the first so many ids only (the frequent ones of a BPE vocabulary); 0: all
  int64_t most_nodes = 256;    ///< seen by a pass; as many of the others are kept
  std::optional<OutcomeOptions> outcomes = std::nullopt;  ///< grow these instead of the heaviest nodes
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
  /// The node of the text's last token; none where the tree does not reach so far.
  std::optional<int32_t> find(std::span<const int32_t> text) const;
  /// The heaviest nodes below `node`, at most `most`; of outcomes, the chain that was prepared for it.
  Draft guesses(int64_t most, int32_t node = 0) const;
  /// One pass over the heaviest nodes that none has seen, and before that all that is unread of the text. False where
  /// the tree is full or the context ends.
  bool grow();

  /// A pass over a piece of the text, or nodes of the tree, or the last piece and the root.
  struct Pass {
    std::vector<int32_t> nodes;  ///< those whose children it gives; they are its last rows
    std::vector<int32_t> ids, positions;
    std::vector<int32_t> rows, lengths;  // of `paths`
    std::optional<KeyPaths> paths;
    double seconds = 0;
  };
  /// The parts of a pass. The tree is touched by the first and the last alone. One that was begun has to be ended.
  std::optional<Pass> begin_pass();
  void compute(Pass& pass);
  void end_pass(const Pass& pass);
  /// Forgets the text and the tree: after a pass that threw.
  void forget();

  double pass_s() const { return pass_s_; }
  const TokenTree& tree() const { return tree_; }
  const KvCache& cache() const { return cache_; }
  /// Tokens of the text that the cache holds.
  int64_t prefix() const { return int64_t(prefix_.size()); }

 private:
  bool continues(std::span<const int32_t> text) const;
  std::optional<int32_t> judge(int32_t node, int32_t token);
  void start_over(std::span<const int32_t> text);
  void adopt(int32_t node);
  Pass reading_pass();
  Pass growing_pass(std::vector<int32_t> nodes);
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
