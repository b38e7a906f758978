// From settings to a drafter: the draft model, whether its vocabulary is the model's, and the cores of each side.
#pragma once
#include <memory>
#include <string>

#include "base/config.h"
#include "base/context.h"
#include "engine/speculation.h"
#include "models/decoder.h"
#include "text/tokenizer.h"

namespace espalier {

struct DraftConfig {
  std::string draft;
  std::string spec = "auto";
  int64_t guesses = 7, width = 1, children = 1, head = 32768, threads = 1;

  void visit(Fields& f) {
    f.field("draft", draft, "smaller model of the same vocabulary that guesses ahead; the text stays the same");
    f.choice("spec", spec, {"auto", "off", "serial", "async", "outcomes", "lookup"},
             "who guesses, and when: the draft before each pass, the draft beside it on cores of its own (a tree, or a "
             "chain for each outcome), or what the text said before; auto: measures both models at the start and takes "
             "what is the fastest, for as long as it pays");
    f.field("spec_guesses", guesses, "most guesses that a pass verifies", 1, 63);
    f.field("spec_width", width, "guesses of a tree that the draft continues in one pass, 1: a chain; auto chooses", 1,
            64);
    f.field("spec_children", children, "guesses that it makes behind each; auto chooses", 1, 64);
    f.field("spec_head", head, "the draft guesses among its first so many (most frequent) ids; 0: all", 0);
    f.field("spec_threads", threads, "cores of the draft with --spec async or outcomes", 1, 1024);
  }
};

/// Throws Error kMismatch naming the first id that means another token in the draft. A smaller or padded vocabulary is
/// no mismatch: ids that only one side has are never guessed.
void check_same_vocabulary(const Tokenizer& model, const Tokenizer& draft, const std::string& draft_path);

class DraftSetup {
 public:
  /// For the model that verifies and its tokenizer; both are borrowed. `side_by_side`: it answers several requests at
  /// once, which want all cores. Throws as loading does, and as check_same_vocabulary.
  DraftSetup(Context& ctx, const DraftConfig& config, Decoder& model, const Tokenizer& tokenizer,
             bool side_by_side = false);

  /// Where the model's passes run: the cores that an async draft leaves to them.
  Context& context() { return own_ ? *own_ : ctx_; }
  SpeculationOptions options() const {
    return {.drafter = drafter_.get(), .most = config_.guesses, .adaptive = adaptive_};
  }
  /// Null where nothing guesses.
  const Drafter* drafter() const { return drafter_.get(); }

 private:
  void load_draft(const Tokenizer& tokenizer);
  void measure_and_choose(Decoder& model, bool side_by_side);
  void split_cores();

  Context& ctx_;
  DraftConfig config_;
  bool adaptive_;
  std::unique_ptr<ThreadPool> pool_, draft_pool_;
  std::unique_ptr<Context> own_, draft_ctx_;
  std::unique_ptr<Decoder> draft_;
  std::unique_ptr<Drafter> drafter_;
};

}  // namespace espalier
