// The settings of a training run: what a recipe says, what --section.key sets, what config.toml in the run folder
// keeps.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"
#include "models/arch_spec.h"

namespace espalier {

struct RunConfig {
  std::string out = "runs/train";
  int64_t seed = 1;
  int64_t max_steps = 1000;
  double max_minutes = 0;
  int64_t log_every = 10;
  int64_t eval_every = 250, eval_batches = 20;
  int64_t sample_every = 0, sample_tokens = 64;
  std::string sample_prompt;
  int64_t save_every = 500, keep_last = 2;
  bool keep_best = true;
  std::string resume = "auto";
  int64_t skip_limit = 10;
  double spike_z = 0;
  void visit(Fields& f) {
    f.field("out", out, "run folder: config, metrics, checkpoints and the model go there");
    f.field("seed", seed, "of starting weights and dropout", 0);
    f.field("max_steps", max_steps, "optimizer steps; 0: as many as max_minutes allows", 0, int64_t{1} << 40);
    f.field(
        "max_minutes", max_minutes,
        "stop after so much training, resumed parts included; 0: no limit. With max_steps = 0 the schedule follows it",
        0, 1e7);
    f.field("log_every", log_every, "steps between two points of the curves", 1);
    f.field("eval_every", eval_every, "steps between two losses on the validation shards; 0: never", 0);
    f.field("eval_batches", eval_batches, "batches of such a loss, always the same ones", 1, 1 << 20);
    f.field("sample_every", sample_every, "steps between two samples; 0: never", 0);
    f.field("sample_tokens", sample_tokens, "tokens of a sample", 1, 1 << 20);
    f.field("sample_prompt", sample_prompt, "what samples continue");
    f.field("save_every", save_every, "steps between two checkpoints; 0: only at the end", 0);
    f.field("keep_last", keep_last, "checkpoints kept", 1, 1 << 20);
    f.field("keep_best", keep_best, "keep the checkpoint with the lowest validation loss too");
    f.field("resume", resume,
            "auto: from the newest whole checkpoint of the run folder, if any; never; or a checkpoint");
    f.field("skip_limit", skip_limit, "steps skipped in a row (not finite, or a spike) before the run gives up", 1);
    f.field("spike_z", spike_z, "skip a step whose loss is so many deviations above the last ones'; 0: never", 0, 1e6);
  }
};

struct ModelConfig {
  std::string init;
  std::vector<std::string> new_tokens;
  int64_t vocab_multiple = 1;
  std::string family = "gpt2";
  int64_t layers = 12, width = 768, heads = 12, kv_heads = 0, ffn = 0;
  int64_t vocab = 0, positions = 0;
  int64_t window = 0;
  bool parallel_block = false, tied_head = true;
  double rope_theta = 10000;
  double dropout = 0;
  void visit(Fields& f) {
    f.field("init", init,
            "continue from this model (a Hugging Face folder, a .gguf, a run folder, or an id in a cache); family and "
            "what follows are then its own");
    f.field("new_tokens", new_tokens,
            "special tokens that the tokenizer of `init` gets; their rows begin as the mean row");
    f.field("vocab_multiple", vocab_multiple, "round the rows of the vocabulary up to a multiple of this", 1, 1 << 20);
    f.choice("family", family, {"gpt2", "llama"}, "architecture; `espalier list models` describes them");
    f.field("layers", layers, "number of layers", 1, 10000);
    f.field("width", width, "size of the residual stream", 1, 1 << 20);
    f.field("heads", heads, "attention heads", 1, 1 << 16);
    f.field("kv_heads", kv_heads, "key/value heads (llama); 0: as many as heads", 0, 1 << 16);
    f.field("ffn", ffn, "width between the feed-forward products; 0: 4 x width, llama 8/3 x width", 0, 1 << 24);
    f.field("vocab", vocab, "vocabulary; 0: that of the shards", 0, int64_t{1} << 31);
    f.field("positions", positions, "longest context the model is made for; 0: data.context", 0, int64_t{1} << 31);
    f.field("window", window, "sliding window: keys a token sees, itself included; 0: all", 0, int64_t{1} << 31);
    f.field("parallel_block", parallel_block, "attention and feed-forward side by side, from one norm (MegaScale)");
    f.field("tied_head", tied_head, "the head is the embedding");
    f.field("rope_theta", rope_theta, "base of the rotary frequencies (llama)", 1, 1e12);
    f.field("dropout", dropout, "share dropped from the embedding and from what each sublayer adds", 0, 0.99);
  }
};

struct DataConfig {
  std::string train, val;
  int64_t batch = 8, context = 256, accumulate = 1;
  bool pack_documents = true;
  int64_t seed = 1;
  void visit(Fields& f) {
    f.field("train", train, "token shards to learn from: folder, file or glob (`espalier prepare` makes them)");
    f.field("val", val, "token shards of the validation loss; empty: none");
    f.field("batch", batch, "sequences of a micro-batch", 1, 1 << 20);
    f.field("context", context, "tokens of a sequence", 1, 1 << 24);
    f.field("accumulate", accumulate, "micro-batches of a step", 1, 1 << 20);
    f.field("pack_documents", pack_documents, "attention and positions begin anew with each document of a sequence");
    f.field("seed", seed, "of the order of the data", 0);
  }
};

struct OptimConfig {
  std::string kind = "adamw";
  double lr = 6e-4, min_lr_ratio = 0.1, muon_lr = 0;
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0.1, clip = 1;
  std::string schedule = "cosine";
  int64_t warmup_steps = 100;
  double decay_fraction = 0.2;
  void visit(Fields& f) {
    f.choice("kind", kind, {"adamw", "lamb", "muon"},
             "optimizer; muon takes the matrices and leaves the rest to adamw");
    f.field("lr", lr, "peak learning rate", 0, 100);
    f.field("min_lr_ratio", min_lr_ratio, "the rate at the end, as a share of the peak", 0, 1);
    f.field("muon_lr", muon_lr, "peak rate of muon's matrices; 0: lr (its updates are scaled to adamw's size)", 0, 100);
    f.field("beta1", beta1, "decay of the first moment", 0, 0.9999999);
    f.field("beta2", beta2, "decay of the second moment", 0, 0.9999999);
    f.field("eps", eps, "added to the root of the second moment", 0, 1);
    f.field("weight_decay", weight_decay, "of matrices; never of norms and biases", 0, 10);
    f.field("clip", clip, "longest gradient (global norm); 0: any", 0, 1e6);
    f.choice("schedule", schedule, {"cosine", "linear", "wsd", "constant"}, "how the rate falls after the warm-up");
    f.field("warmup_steps", warmup_steps, "steps in which the rate rises to its peak", 0);
    f.field("decay_fraction", decay_fraction, "last share of the run in which wsd lets the rate fall", 0, 1);
  }
};

struct ComputeConfig {
  std::string dtype = "auto";
  bool recompute = false;
  double peak_gflops = 0;
  void visit(Fields& f) {
    f.choice("dtype", dtype, {"auto", "f32", "bf16"},
             "of products; auto takes the faster one as measured at the start");
    f.field("recompute", recompute, "keep only each layer's input and compute the layer again going backward");
    f.field("peak_gflops", peak_gflops, "what MFU is a fraction of; 0: measured at the start; -1: no MFU", -1, 1e12);
  }
};

struct TrainConfig {
  RunConfig run;
  ModelConfig model;
  DataConfig data;
  OptimConfig optim;
  ComputeConfig compute;
  bool dry_run = false;
  void visit(Fields& f) {
    f.field("dry_run", dry_run, "say what the run would need and whether it fits, and stop");
    f.section("run", run, "how long, where to, how often");
    f.section("model", model, "what is trained");
    f.section("data", data, "what it learns from");
    f.section("optim", optim, "how the weights change");
    f.section("compute", compute, "on what, in which precision");
  }
  int64_t sequences_per_step() const { return data.batch * data.accumulate; }
  int64_t tokens_per_step() const { return sequences_per_step() * data.context; }
};

/// The architecture that the fields describe, for a vocabulary of `vocab`. Throws kUsage for fields that contradict
/// each other and for those that the family does not have.
ArchSpec arch_of(const ModelConfig& model, int64_t vocab, int64_t context);

/// What no recipe may say, checked before anything is opened: kUsage.
void check_config(const TrainConfig& config);

/// Fields whose values differ, of those that `only` names by path or section: "optim.lr is 0.1, was 0.2".
std::vector<std::string> differences(const TrainConfig& now, const TrainConfig& before,
                                     std::span<const std::string_view> only);

}  // namespace espalier
