#include "train/trainer.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/human.h"
#include "base/json_value.h"
#include "models/init.h"
#include "models/load.h"
#include "models/resize.h"
#include "models/save.h"
#include "report/run_report.h"
#include "train/schedule.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

constexpr double kShowEveryS = 0.5;

/// The setup, once its memory is known to be there.
TrainSetup fitting(TrainSetup setup) {
  check_fits(setup.plan, setup.available_bytes);
  return setup;
}

}  // namespace

FolderLock::FolderLock(const std::string& folder) {
  std::error_code status;
  fs::create_directories(folder, status);
  if (status) throw error(Code::kIo, "creating the run folder {}: {}", folder, status.message());
  fd_ = ::open((folder + "/.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0) throw errno_error("opening " + folder + "/.lock");
  if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) return;
  ::close(fd_);
  throw error(Code::kUsage, "another process trains in {}; wait for it, or choose another --run.out", folder);
}

FolderLock::~FolderLock() { ::close(fd_); }

Trainer::Trainer(Context& ctx, const Mesh& mesh, TrainSetup setup, TrainHooks hooks)
    : ctx_(ctx),
      mesh_(mesh),
      setup_(fitting(std::move(setup))),
      config_(setup_.config),
      hooks_(std::move(hooks)),
      state_(setup_.state),
      lock_(config_.run.out) {
  build();
}

Trainer::~Trainer() = default;

void Trainer::build() {
  const TrainConfig& c = config_;
  const uint64_t seed = uint64_t(c.run.seed);
  model_ = std::make_unique<Decoder>(setup_.spec, mesh_, setup_.compute.dtype, true);
  optimizer_ = std::make_unique<Optimizer>(*model_, c.optim);
  guard_ = std::make_unique<Guard>(c.run.skip_limit, c.run.spike_z);
  if (setup_.checkpoint) {
    restore(ctx_, *setup_.checkpoint, state_, *model_, *optimizer_);
    guard_->restore(state_.guard);
    setup_.checkpoint.reset();  // unmaps it
  } else if (!setup_.init.empty()) {
    if (const auto& growth = setup_.vocabulary.growth)
      load_grown_weights(ctx_, *model_, setup_.init, *growth);
    else
      load_weights(ctx_, *model_, setup_.init);
  } else {
    initialise(ctx_, *model_, seed);
  }
  step_ = std::make_unique<TrainStep>(ctx_, *model_, *optimizer_, *guard_,
                                      TrainStepOptions{.mesh = mesh_,
                                                       .dropout = c.model.dropout,
                                                       .seed = seed,
                                                       .recompute = c.compute.recompute,
                                                       .clip = c.optim.clip,
                                                       .interrupted = hooks_.interrupted});
  const BatchShape shape{.sequences = c.data.batch,
                         .context = c.data.context,
                         .micro_batches = c.data.accumulate,
                         .pack_documents = c.data.pack_documents};
  loader_ = std::make_unique<DataLoader>(setup_.train, LoaderOptions{.shape = shape,
                                                                     .seed = uint64_t(c.data.seed),
                                                                     .cursor = state_.samples,
                                                                     .rank = mesh_.data->rank(),
                                                                     .ranks = mesh_.data->size()});
  if (setup_.val) evaluator_ = std::make_unique<Evaluator>(*setup_.val, shape, c.run.eval_batches);
  saver_ = std::make_unique<CheckpointSaver>(ctx_, c.run.out + "/checkpoints", checkpoint_groups(*optimizer_),
                                             c.run.save_every > 0);
}

TrainOutcome Trainer::run() {
  struct Diary {
    std::unique_ptr<Metrics>& metrics;
    ~Diary() { metrics.reset(); }  // also where an error ends the run, so that it is called failed
  } const closed{metrics_};
  begin();
  while (!done()) {
    if (!train_one_step()) break;
    if (every(config_.run.log_every)) log();
    const bool save_due = every(config_.run.save_every);
    if (evaluator_ && (every(config_.run.eval_every) || (save_due && config_.run.keep_best))) evaluate();
    if (every(config_.run.sample_every)) sample();
    if (save_due) save(false);
    show_progress();
  }
  return finish();
}

void Trainer::begin() {
  const std::string config = config_to_toml(ESP_CONFIG(config_));
  const int64_t first = state_.step > 0 ? state_.step : -1;
  write_file_atomic(config_.run.out + "/config.toml", config);
  metrics_ = std::make_unique<Metrics>(config_.run.out, config, first);
  flops_per_token_ = train_flops_per_token(setup_.spec, config_.data.context, AttentionCount::kCausal);
  if (state_.step > 0) {
    metrics_->event(state_.step, "resume", fmt::format("continues after step {}", state_.step));
    ctx_.log.info("continuing {} after step {}", config_.run.out, state_.step);
    saved_step_ = state_.step;
  } else {
    metrics_->event(0, "fact", "parameters: " + human_count(double(parameter_count(setup_.spec))));
    if (const auto& grown = setup_.vocabulary.growth)
      metrics_->event(0, "fact", fmt::format("vocabulary: {} tokens, {} of them new, in {} rows", grown->tokens,
                                             grown->tokens - grown->known, grown->rows));
    metrics_->event(0, "fact", fmt::format("tokens a step: {}", config_.tokens_per_step()));
    metrics_->event(0, "fact", fmt::format("products in: {}", dtype_name(setup_.compute.dtype)));
    if (setup_.compute.peak_gflops > 0)
      metrics_->event(0, "fact",
                      fmt::format("peak: {:.0f} GFLOP/s (MFU's limit: {}; causal attention counted as (T+1)/2 "
                                  "keys)",
                                  setup_.compute.peak_gflops, setup_.compute.peak_note));
    if (hooks_.sample && config_.run.sample_every > 0) sample();
  }
  trained_before_s_ = state_.trained_s;
  watch_ = Stopwatch();
  const bool by_time = config_.run.max_steps == 0;
  hooks_.progress->begin("train", by_time ? int64_t(config_.run.max_minutes * 60) : config_.run.max_steps,
                         by_time ? "s" : "steps");
}

bool Trainer::done() const {
  const RunConfig& run = config_.run;
  if (hooks_.interrupted && hooks_.interrupted()) return true;
  if (run.max_steps > 0 && state_.step >= run.max_steps) return true;
  return run.max_minutes > 0 && trained_s() >= run.max_minutes * 60;
}

double Trainer::share_done_now() const {
  const RunConfig& run = config_.run;
  if (run.max_steps > 0) return share_done(state_.step, config_.optim.warmup_steps, run.max_steps);
  return std::min(1.0, trained_s() / (run.max_minutes * 60));
}

/// False when it was interrupted: then it never happened.
bool Trainer::train_one_step() {
  const Stopwatch watch;
  const TrainingBatch& batch = loader_->next();
  last_rate_ = rate_factor(config_.optim, state_.step, share_done_now());
  const StepResult result = step_->run(batch, state_.step, last_rate_, [this](size_t i) { saver_->before_update(i); });
  if (!result.finished) return false;
  last_ = result;
  ++state_.step;
  state_.samples = loader_->cursor();
  ++interval_.steps;
  interval_.seconds += watch.seconds();
  interval_.loader_stall_ms += loader_->stall_ms();
  if (saving_step_ >= 0) report_save_stall();
  if (last_.verdict != Verdict::kGood) refuse(last_);
  return true;
}

void Trainer::refuse(const StepResult& result) {
  const bool spike = result.verdict == Verdict::kSpike;
  const std::string why =
      spike ? fmt::format("a loss of {:.4g} is a spike; gradient norm {:.4g}", result.loss, result.grad_norm)
            : fmt::format("loss {:.4g}, gradient norm {:.4g}: {}", result.loss, result.grad_norm,
                          step_->first_bad_tensor());
  ctx_.log.warn("step {} is skipped: {}", state_.step, why);
  metrics_->event(state_.step, spike ? "spike" : "skip", why);
  if (!guard_->exhausted()) return;
  throw error(Code::kBadData,
              "training {}: {} steps in a row were refused, the last one because of this: {}. Resume from an "
              "earlier checkpoint with a lower optim.lr or a longer warm-up",
              config_.run.out, guard_->skipped_in_row(), why);
}

void Trainer::report_save_stall() {
  metrics_->log(saving_step_, {{"checkpoint_stall_ms", saver_->take_stall_ms()}});
  saving_step_ = -1;
}

double Trainer::tokens_per_s() const {
  return double(interval_.steps * config_.tokens_per_step() * mesh_.data->size()) / interval_.seconds;
}

double Trainer::mfu() const {
  const double peak = setup_.compute.peak_gflops * 1e9 * mesh_.world->size();
  return peak > 0 ? tokens_per_s() * flops_per_token_ / peak : std::nan("");
}

void Trainer::log() {
  const double steps = double(interval_.steps), share = mfu();
  metrics_->log(state_.step, {{"loss", last_.loss},
                              {"lr", config_.optim.lr * last_rate_},
                              {"grad_norm", last_.grad_norm},
                              {"tokens", double(state_.samples * config_.data.context)},
                              {"tokens_per_s", tokens_per_s()},
                              {"mfu", share},
                              {"step_ms", 1e3 * interval_.seconds / steps},
                              {"loader_stall_ms", interval_.loader_stall_ms / steps},
                              {"skipped", double(guard_->skipped())}});
  shown_s_ = 0;  // what is shown follows what is logged
  show_progress();
  interval_ = {};
}

/// Says how far the run is, now and then: steps may be faster than anyone reads.
void Trainer::show_progress() {
  if (hooks_.progress == &silent_progress() || interval_.steps == 0) return;
  const double now = watch_.seconds();
  if (shown_s_ > 0 && now - shown_s_ < kShowEveryS) return;
  shown_s_ = now;
  std::string note = fmt::format("loss {:.3f}  {} tokens/s", last_.loss, human_count(tokens_per_s()));
  if (const double share = mfu(); std::isfinite(share)) note += fmt::format("  MFU {:.0f}% (causal)", 100 * share);
  if (val_loss_) note += fmt::format("  val {:.3f}", *val_loss_);
  if (guard_->skipped() > 0) note += fmt::format("  skipped {}", guard_->skipped());
  hooks_.progress->update(config_.run.max_steps > 0 ? state_.step : int64_t(trained_s()), note);
}

void Trainer::evaluate() {
  val_loss_ = evaluator_->loss(ctx_, *model_);
  metrics_->log(state_.step, {{"val_loss", *val_loss_}});
}

void Trainer::sample() {
  if (!hooks_.sample) return;
  const std::string text = hooks_.sample(*model_);
  metrics_->sample(state_.step, config_.run.sample_prompt, text);
  ctx_.log.info("sample after step {}:\n{}{}", state_.step, config_.run.sample_prompt, text);
}

void Trainer::save(bool now) {
  if (saved_step_ == state_.step) return;
  if (val_loss_ && config_.run.keep_best && (!state_.best || *val_loss_ < state_.best->val_loss))
    state_.best = {state_.step, *val_loss_};
  state_.updates = optimizer_->updates();
  state_.trained_s = trained_s();
  state_.guard = guard_->state();
  CheckpointJob job{.step = state_.step,
                    .state = std::make_shared<const Json>(state_to_json(state_)),
                    .keep_last = int(config_.run.keep_last)};
  if (state_.best) job.keep = {state_.best->step};
  saver_->take_stall_ms();
  if (now)
    saver_->save_now(std::move(job));
  else
    saver_->begin(std::move(job));
  metrics_->event(state_.step, "checkpoint", fmt::format("step-{}", state_.step));
  saving_step_ = now ? -1 : state_.step;
  saved_step_ = state_.step;
}

TrainOutcome Trainer::finish() {
  const std::string& out = config_.run.out;
  const bool interrupted = hooks_.interrupted && hooks_.interrupted();
  if (interval_.steps > 0) log();
  hooks_.progress->end();
  if (evaluator_ && !interrupted && !every(config_.run.eval_every)) evaluate();
  if (saving_step_ >= 0) report_save_stall();
  save(true);
  saver_->finish();
  save_model(ctx_, *model_, out + "/model");
  setup_.vocabulary.companions.save(out + "/model");
  if (config_.run.sample_every > 0 && !every(config_.run.sample_every)) sample();
  metrics_->status(interrupted ? "interrupted" : "finished");
  write_file_atomic(out + "/report.html", run_report_html(load_run(out)));
  return {.steps = state_.step,
          .loss = last_.loss,
          .val_loss = val_loss_,
          .best = state_.best,
          .interrupted = interrupted,
          .model_folder = out + "/model",
          .report = out + "/report.html"};
}

}  // namespace espalier
