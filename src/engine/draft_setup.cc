#include "engine/draft_setup.h"

#include <algorithm>

#include "base/error.h"
#include "engine/async_drafter.h"
#include "engine/lookup_drafter.h"
#include "engine/model_drafter.h"
#include "engine/spec_choice.h"
#include "formats/hf_folder.h"
#include "models/gguf_tokenizer.h"
#include "models/load.h"

namespace espalier {
namespace {

constexpr int64_t kOutcomeWidth = 8;  // outcomes that one pass of the draft prepares for

}  // namespace

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

DraftSetup::DraftSetup(Context& ctx, const DraftConfig& config, Decoder& model, const Tokenizer& tokenizer,
                       bool side_by_side)
    : ctx_(ctx), config_(config), adaptive_(config.spec == "auto") {
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
  if (config_.spec == "auto") measure_and_choose(model, side_by_side);
  const int64_t vocab = model.spec().vocab;
  ModelDrafterOptions options{.width = config_.width, .children = config_.children,
                                    .most_steps = config_.guesses, .head_rows = config_.head};
  if (config_.spec == "serial") drafter_ = std::make_unique<ModelDrafter>(ctx, *draft_, vocab, options);
  if (config_.spec != "async" && config_.spec != "outcomes") return;
  if (config_.spec == "outcomes") {
    options.outcomes = OutcomeOptions{.chain = config_.guesses};
    options.width = std::max<int64_t>(options.width, kOutcomeWidth);
    options.children = options.outcomes->fan + 1;
  }
  split_cores();
  drafter_ = std::make_unique<AsyncDrafter>(*draft_ctx_, *draft_, vocab, options);
}

void DraftSetup::split_cores() {
  const int cores = std::max(1, ctx_.pool.size() - int(config_.threads));
  pool_ = std::make_unique<ThreadPool>(cores);
  draft_pool_ = std::make_unique<ThreadPool>(int(config_.threads));
  own_ = std::make_unique<Context>(Context{*pool_, ctx_.log, ctx_.isa, {}});
  draft_ctx_ = std::make_unique<Context>(Context{*draft_pool_, ctx_.log, ctx_.isa, {}});
}

void DraftSetup::measure_and_choose(Decoder& model, bool side_by_side) {
  const SpecCosts serial = measure_serial(ctx_, model, *draft_);
  std::vector<SpecSplit> splits;
  const int64_t most = side_by_side ? 0 : ctx_.pool.size() / 2;
  for (config_.threads = 1; config_.threads <= most; config_.threads *= 2) {
    split_cores();
    splits.push_back({config_.threads, measure_beside(*own_, model, *draft_ctx_, *draft_)});
  }
  own_.reset();
  draft_ctx_.reset();
  pool_.reset();
  draft_pool_.reset();
  const SpecChoice choice = choose_speculation(serial, splits, config_.guesses);
  ctx_.log.info("speculation: {} ({:.1f} ms a pass of the model, {:.1f} of the draft)", choice.text(),
                1e3 * serial.target_s, 1e3 * serial.draft_s);
  config_.spec = !choice.speculates ? "off" : choice.async ? "async" : "serial";
  config_.threads = choice.draft_threads;
  config_.guesses = std::max<int64_t>(1, choice.guesses);
  config_.width = choice.width;
  config_.children = choice.children;
}

void DraftSetup::load_draft(const Tokenizer& tokenizer) {
  const std::string path = find_model(config_.draft);
  check_same_vocabulary(tokenizer, load_tokenizer(path), path);
  draft_ = load_model(ctx_, one_process_mesh(), path, {.blocks = Blocks::kPack});
}

}  // namespace espalier
