#include "engine/draft_setup.h"

#include <algorithm>

#include "base/error.h"
#include "engine/async_drafter.h"
#include "engine/lookup_drafter.h"
#include "engine/model_drafter.h"
#include "formats/hf_folder.h"
#include "models/gguf_tokenizer.h"
#include "models/load.h"

namespace espalier {

void check_same_vocabulary(const Tokenizer& model, const Tokenizer& draft, const std::string& draft_path) {
  const int64_t shared = std::min(model.vocab_size(), draft.vocab_size());
  for (int64_t id = 0; id < shared; ++id) {
    const std::string ours = model.token_text(int32_t(id)), theirs = draft.token_text(int32_t(id));
    // Names of special tokens and of places that are kept free differ between models that are otherwise alike.
    if (ours == theirs || model.is_special(int32_t(id)) || draft.is_special(int32_t(id)) || ours.empty() ||
        theirs.empty())
      continue;
    throw error(Code::kMismatch, "drafting with {}: its token {} is '{}', the model's is '{}'; a draft needs the "
                "model's vocabulary. Give another --draft", draft_path, id, theirs, ours);
  }
}

DraftSetup::DraftSetup(Context& ctx, const DraftConfig& config, int64_t vocab, const Tokenizer& tokenizer)
    : ctx_(ctx), config_(config) {
  if (config.spec == "off") return;
  if (config.spec == "lookup") {
    drafter_ = std::make_unique<LookupDrafter>();
    return;
  }
  if (config.draft.empty()) {
    if (config.spec == "auto") return;
    throw error(Code::kUsage, "--spec {} needs a model that guesses: --draft MODEL", config.spec);
  }
  load_draft(tokenizer);
  const ModelDrafterOptions options{.width = config.width, .children = config.children,
                                    .most_steps = config.guesses, .head_rows = config.head};
  if (config.spec != "async") {
    drafter_ = std::make_unique<ModelDrafter>(ctx, *model_, vocab, options);
    return;
  }
  const int cores = std::max(1, ctx.pool.size() - int(config.threads));
  pool_ = std::make_unique<ThreadPool>(cores);
  draft_pool_ = std::make_unique<ThreadPool>(int(config.threads));
  own_ = std::make_unique<Context>(Context{*pool_, ctx.log, ctx.isa, {}});
  draft_ctx_ = std::make_unique<Context>(Context{*draft_pool_, ctx.log, ctx.isa, {}});
  drafter_ = std::make_unique<AsyncDrafter>(*draft_ctx_, *model_, vocab, options);
}

void DraftSetup::load_draft(const Tokenizer& tokenizer) {
  const std::string path = find_model(config_.draft);
  check_same_vocabulary(tokenizer, load_tokenizer(path), path);
  model_ = load_model(ctx_, one_process_mesh(), path, {.blocks = Blocks::kPack});
}

}  // namespace espalier
