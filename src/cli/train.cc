// `espalier train RECIPE.toml`: from token shards to a model, in a run folder with its curves.
#include "base/error.h"
#include "base/human.h"
#include "cli/loss_chart.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "engine/generator.h"
#include "engine/prompt.h"
#include "report/run_report.h"
#include "train/trainer.h"

namespace espalier {

extern const Verb kTrain;

namespace {

/// Continues the recipe's prompt with the weights as they are; the same draws every time, so that samples of two steps
/// differ by the weights alone.
std::function<std::string(Decoder&)> sampler(Context& ctx, const TrainSetup& setup) {
  if (setup.config.run.sample_every == 0) return nullptr;
  if (!setup.vocabulary.tokenizer) {
    ctx.log.warn("there will be no samples: no tokenizer.json beside {}", setup.config.data.train);
    return nullptr;
  }
  const Tokenizer tokenizer = *setup.vocabulary.tokenizer;
  const RunConfig run = setup.config.run;
  return [&ctx, tokenizer, run](Decoder& model) {
    Generator generator(ctx, model, &tokenizer);
    GenerateRequest request{.prompt = encode_prompt(tokenizer, run.sample_prompt), .max_tokens = run.sample_tokens};
    request.sampler.seed = run.seed;
    request.sampler.temperature = 0.8;
    return generator.generate(std::move(request)).text;
  };
}

void print_outcome(Terminal& terminal, const std::string& out, const TrainOutcome& outcome, bool talks) {
  const RunData data = load_run(out);
  terminal.print("{}\n{}", loss_chart(terminal, data), run_report_text(data));
  if (outcome.interrupted)
    terminal.print("\nstopped after step {}; the same command continues from there\n", outcome.steps);
  if (outcome.best && outcome.best->step != outcome.steps)
    terminal.print("\nthe best validation loss, {:.4f}, was after step {}: {}/checkpoints/step-{}\n",
                   outcome.best->val_loss, outcome.best->step, out, outcome.best->step);
  if (talks)
    terminal.print("\nnext: espalier generate {} --prompt \"...\"   (the page: {})\n", out, outcome.report);
  else
    terminal.print("\nnext: espalier inspect {}   (the page: {})\n", outcome.model_folder, outcome.report);
}

int run(Terminal& terminal, std::span<const std::string> args) {
  TrainConfig config;
  if (!read_args(terminal, kTrain, args, ESP_CONFIG(config))) return 0;
  Context& ctx = terminal.context();
  TrainSetup setup = prepare_training(ctx, config);
  if (config.dry_run) {
    terminal.write(plan_text(setup.config, setup.spec, setup.compute.dtype, setup.plan));
    check_fits(setup.plan, setup.available_bytes);
    terminal.print("\nit fits: {} are available\n", human_bytes(double(setup.available_bytes)));
    return 0;
  }
  terminal.own_interrupts();
  TrainHooks hooks{.progress = &terminal.progress(),
                   .interrupted = [&terminal] { return terminal.interrupted(); },
                   .sample = sampler(ctx, setup)};
  const bool talks = setup.vocabulary.tokenizer.has_value();
  Trainer trainer(ctx, one_process_mesh(), std::move(setup), std::move(hooks));
  const TrainOutcome outcome = trainer.run();
  print_outcome(terminal, config.run.out, outcome, talks);
  return outcome.interrupted ? code_info(Code::kInterrupted).exit_status : 0;
}

}  // namespace

const Verb kTrain = {"train",
                     "Make",
                     "train a model on token shards as a recipe says",
                     "[RECIPE]",
                     "espalier train recipes/gpt2-124m.toml --run.out runs/gpt2 --data.train data/train\n"
                     "espalier train recipes/demo.toml --dry-run\n"
                     "espalier train recipes/demo.toml --model.init runs/demo --run.out runs/more --optim.lr 1e-4",
                     run};

}  // namespace espalier
