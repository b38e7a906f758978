// `espalier generate MODEL`: the model continues a text, which streams to standard output as it comes.
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_value.h"
#include "cli/open_model.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "engine/draft_setup.h"
#include "engine/generator.h"
#include "engine/prompt.h"
#include "formats/hf_folder.h"
#include "text/gbnf.h"
#include "text/json_schema.h"

namespace espalier {

extern const Verb kGenerate;

namespace {

struct Options {
  std::string model, prompt, prompt_file, grammar, json_schema;
  int64_t max_tokens = 128, samples = 1;
  WriterMemory memory;
  DraftConfig draft;
  SamplerConfig sampler;
  std::vector<std::string> stop, lora;
  bool ignore_eos = false, slide = false, echo = false, json = false;
  void visit(Fields& f) {
    f.field("model", model, "Hugging Face folder, .gguf, run folder, or the id of a model in the cache");
    f.field("prompt", prompt, "text to continue; without it, standard input where that is no terminal");
    f.field("prompt_file", prompt_file, "file with the text to continue");
    f.field("max_tokens", max_tokens, "most tokens to generate", 1);
    f.field("samples", samples, "continuations of the prompt, computed side by side", 1, 1024);
    sampler.visit(f);
    f.field("stop", stop, "end where this text appears; may be given several times");
    f.field("grammar", grammar, "file with a grammar in llama.cpp's notation (GBNF) that the text must follow");
    f.field("json_schema", json_schema, "file with a JSON Schema; the text is JSON that it accepts");
    f.field("ignore_eos", ignore_eos, "go on when the model says that the text is over");
    f.field("slide", slide, "at the end of the context go on without the older half of the text; otherwise end");
    f.field("echo", echo, "print the prompt before the continuation");
    memory.visit(f);
    f.field("lora", lora, kLoraHelp);
    draft.visit(f);
    f.field("json", json, "one object a sample instead of the text");
  }
};

std::string prompt_of(const Options& options) {
  if (!options.prompt.empty() && !options.prompt_file.empty())
    throw Error(Code::kUsage, "--prompt and --prompt-file are both given; expected one");
  if (!options.prompt_file.empty()) return read_file(options.prompt_file, size_t{1} << 30);
  if (!options.prompt.empty() || ::isatty(STDIN_FILENO)) return options.prompt;
  return read_stdin();
}

std::string as_json(const Options& options, const std::string& prompt, const GenerateResult& r) {
  OrderedJson object = {{"prompt", prompt},
                        {"text", r.text},
                        {"ids", r.ids},
                        {"finish_reason", finish_reason_name(r.finish_reason)},
                        {"prompt_tokens", r.prompt_tokens},
                        {"generated_tokens", r.ids.size()},
                        {"prefill_tokens_per_s", r.prefill_tokens_per_s()},
                        {"decode_tokens_per_s", r.decode_tokens_per_s()},
                        {"seed", options.sampler.seed}};
  return object.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

void report(Terminal& terminal, const GenerateResult& r) {
  const std::string rate = r.ids.size() > 1 ? fmt::format(" at {:.1f}/s", r.decode_tokens_per_s()) : "";
  terminal.log().info("{} prompt tokens at {:.1f}/s, {} generated{}, ended by {}", r.prompt_tokens,
                      r.prefill_tokens_per_s(), r.ids.size(), rate, finish_reason_name(r.finish_reason));
}

void report(Terminal& terminal, const SpeculationCounters& c) {
  terminal.log().info("{} passes verified {} guesses and found {} right: {:.2f} tokens a pass; {} passes were plain",
                      c.passes, c.guessed, c.accepted, c.accepted_length(), c.plain_passes);
}

/// Null: any text.
std::shared_ptr<const TokenGrammar> grammar_of(const Options& options, const Tokenizer& tokenizer) {
  if (options.grammar.empty() && options.json_schema.empty()) return nullptr;
  if (!options.grammar.empty() && !options.json_schema.empty())
    throw Error(Code::kUsage, "--grammar and --json-schema are both given; expected one");
  constexpr size_t kMaxBytes = size_t{1} << 24;
  const auto grammar = options.grammar.empty()
                           ? json_schema_grammar(read_file(options.json_schema, kMaxBytes), options.json_schema)
                           : parse_gbnf(read_file(options.grammar, kMaxBytes), options.grammar);
  return std::make_shared<TokenGrammar>(grammar, std::make_shared<TokenTrie>(tokenizer));
}

std::vector<GenerateRequest> requests_of(const Options& options, const std::vector<int32_t>& prompt,
                                         const std::shared_ptr<const TokenGrammar>& grammar) {
  std::vector<GenerateRequest> requests;
  for (int64_t i = 0; i < options.samples; ++i)
    requests.push_back({.prompt = prompt, .max_tokens = options.max_tokens, .sampler = options.sampler,
                        .id = uint64_t(i), .stop = options.stop, .ignore_eos = options.ignore_eos,
                        .grammar = grammar, .slide = options.slide});
  return requests;
}

int run(Terminal& terminal, std::span<const std::string> args) {
  Options options;
  if (!read_args(terminal, kGenerate, args, ESP_CONFIG(options))) return 0;
  const std::string folder = find_model(options.model), prompt = prompt_of(options);
  const Tokenizer tokenizer = open_tokenizer(folder);
  const auto grammar = grammar_of(options, tokenizer);
  const auto model = open_model(terminal, folder, options.memory);
  DraftSetup draft(terminal.context(), options.draft, *model, tokenizer);
  Generator generator(draft.context(), *model, &tokenizer,
                      {.cache_type = options.memory.cache_type(), .speculation = draft.options()});
  std::vector<GenerateRequest> requests = requests_of(options, encode_prompt(tokenizer, prompt), grammar);
  const std::vector<LoraUse> lora = open_adapters(terminal, options.lora, model->spec());
  for (GenerateRequest& request : requests) request.lora = lora;
  const bool streams = !options.json && options.samples == 1;
  if (streams) {
    if (options.echo) terminal.write(prompt);
    requests[0].on_token = [&](int32_t, std::string_view text) {
      terminal.write(text);
      if (!text.empty()) terminal.flush();
      return true;
    };
  }
  const std::vector<GenerateResult> results = generator.generate(std::move(requests));
  for (size_t i = 0; i < results.size(); ++i) {
    if (options.json) {
      terminal.write(as_json(options, prompt, results[i]));
    } else {
      if (!streams) terminal.print("--- sample {}\n{}{}", i + 1, options.echo ? prompt : "", results[i].text);
      terminal.write("\n");
    }
    terminal.flush();
    report(terminal, results[i]);
  }
  if (draft.drafter()) report(terminal, generator.speculation().counters());
  return 0;
}

}  // namespace

const Verb kGenerate = {"generate", "Use", "continue a text", "model",
                        "espalier generate runs/demo --prompt \"def \" --max-tokens 200\n"
                        "espalier generate runs/demo --prompt \"Once\" --temperature 0 --stop END --json\n"
                        "git log | espalier generate gpt2 --samples 4\n"
                        "espalier generate qwen2.5-coder-1.5b --prompt \"A person: \" --json-schema person.json\n"
                        "espalier generate qwen2.5-coder-1.5b --draft qwen2.5-coder-0.5b --prompt \"def \"", run};

}  // namespace espalier
