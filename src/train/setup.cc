#include "train/setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "formats/hf_folder.h"
#include "models/load.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

/// Settings that a resume may not change: another value would make another model or another order of the data.
constexpr std::string_view kFixed[] = {
    "model.family", "model.layers",    "model.width",         "model.heads",      "model.kv_heads",
    "model.ffn",    "model.vocab",     "model.positions",     "model.window",     "model.parallel_block",
    "data.context", "model.tied_head", "data.pack_documents", "model.rope_theta", "optim.kind",
    "data.seed",    "model.new_tokens", "model.vocab_multiple"};
/// Settings whose change is worth a word.
constexpr std::string_view kNoted[] = {"model", "data", "optim", "compute", "run.seed"};

/// The tokenizer, and the vocabulary of a model that is continued, grown where the recipe asks for it.
void settle_vocabulary(Context& ctx, TrainSetup& s) {
  s.vocabulary = find_vocabulary(ctx, s.config, s.train, s.init, s.spec.vocab);
  if (s.vocabulary.growth) s.spec.vocab = s.vocabulary.growth->rows;
  if (!s.init.empty()) validate(s.spec, s.init);
}

/// BOS and EOS from the tokenizer where the model has none.
void take_special_ids(TrainSetup& s) {
  const std::optional<Tokenizer>& tokenizer = s.vocabulary.tokenizer;
  if (!s.spec.bos && tokenizer && tokenizer->bos()) s.spec.bos = *tokenizer->bos();
  if (!s.spec.eos && tokenizer && tokenizer->eos()) s.spec.eos = *tokenizer->eos();
}

void open_data(TrainSetup& s) {
  const DataConfig& data = s.config.data;
  const int64_t known = s.init.empty() ? s.config.model.vocab : s.spec.vocab;
  s.train = TokenDataset::open(data.train, known);
  const int64_t vocab = known > 0 ? known : s.train.vocab_size();
  if (vocab == 0)
    throw error(Code::kUsage, "the shards of {} do not say how large their vocabulary is; set model.vocab", data.train);
  const int64_t multiple = s.config.model.vocab_multiple;
  if (s.init.empty()) s.spec = arch_of(s.config.model, (vocab + multiple - 1) / multiple * multiple, data.context);
  if (!data.val.empty()) s.val = TokenDataset::open(data.val, vocab);
  if (s.val && s.val->vocab_hash() != s.train.vocab_hash())
    throw error(Code::kMismatch, "the shards of {} and of {} were made with different tokenizers", data.train,
                data.val);
  if (data.context > s.spec.positions)
    throw error(Code::kMismatch, "data.context is {} and the model is made for at most {} positions", data.context,
                s.spec.positions);
}

/// Another vocabulary gives the ids another meaning; other tokens only end the promise that a resume is exact.
void check_same_data(Context& ctx, TrainSetup& s) {
  const DataIdentity before = s.state.data;
  s.state.data = {s.train.token_count(), s.train.vocab_hash(), s.train.fingerprint()};
  if (!s.checkpoint || before.tokens == 0) return;
  const bool known = before.vocab_hash != 0 && s.state.data.vocab_hash != 0;
  if (known && before.vocab_hash != s.state.data.vocab_hash)
    throw error(Code::kMismatch,
                "resuming from {}: the shards of {} were made with another tokenizer (hash {}) than those it learned "
                "from (hash {}); prepare the text with the same tokenizer, or choose another --run.out",
                s.checkpoint->path(), s.config.data.train, hex64(s.state.data.vocab_hash), hex64(before.vocab_hash));
  if (before.fingerprint != s.state.data.fingerprint)
    ctx.log.warn("resuming with other data: {} tokens, they were {}; the run goes on, but it is not the one it was",
                 s.state.data.tokens, before.tokens);
}

/// The newest whole checkpoint, or none, as run.resume says.
void find_checkpoint(Context& ctx, TrainSetup& s) {
  const RunConfig& run = s.config.run;
  const std::string folder = run.out + "/checkpoints";
  if (run.resume == "never") {
    if (!find_checkpoints(folder).empty())
      throw error(Code::kUsage,
                  "run.resume is never, but {} holds checkpoints of an earlier run; choose another run.out, "
                  "remove that folder, or continue with --run.resume=auto",
                  folder);
  } else if (run.resume == "auto") {
    s.checkpoint = newest_valid_checkpoint(folder, ctx.log);
  } else {
    if (!is_file(run.resume + "/manifest.json"))
      throw error(Code::kNotFound,
                  "run.resume is '{}': no checkpoint is there; expected auto, never, or a folder such as {}/step-100",
                  run.resume, folder);
    s.checkpoint = Checkpoint::open(run.resume);
  }
  if (!s.checkpoint) return;
  s.state = state_from_json(s.checkpoint->state(), s.checkpoint->path());
  if (s.config.compute.dtype == "auto") s.config.compute.dtype = s.state.dtype;
}

/// Compares the recipe with the one that the checkpoint's run was started with.
void check_same_run(Context& ctx, const TrainSetup& s) {
  const fs::path saved = fs::path(s.checkpoint->path()).parent_path().parent_path() / "config.toml";
  if (!is_file(saved)) return;
  TrainConfig before;
  config_from_toml_file(saved, ESP_CONFIG(before));
  const std::vector<std::string> fixed = differences(s.config, before, kFixed);
  if (!fixed.empty())
    throw error(Code::kMismatch,
                "resuming from {}: {}. These make another run: choose another --run.out, or restore them",
                s.checkpoint->path(), fmt::join(fixed, "; "));
  for (const std::string& change : differences(s.config, before, kNoted))
    ctx.log.warn("resuming with a changed setting: {}", change);
}

}  // namespace

TrainSetup prepare_training(Context& ctx, const TrainConfig& config) {
  check_config(config);
  TrainSetup s{.config = config, .train = TokenDataset::open(config.data.train)};
  find_checkpoint(ctx, s);
  if (s.checkpoint) check_same_run(ctx, s);
  if (!config.model.init.empty()) {
    s.init = find_model(config.model.init);
    s.spec = load_spec(s.init);
  }
  settle_vocabulary(ctx, s);
  open_data(s);
  check_same_data(ctx, s);
  take_special_ids(s);
  s.compute = choose_compute(ctx, s.config.compute);
  s.config.compute.dtype = s.state.dtype = dtype_name(s.compute.dtype);
  s.plan = plan_memory(s.config, s.spec, s.compute.dtype, ctx.pool.size());
  s.available_bytes = available_memory();
  return s;
}

}  // namespace espalier
