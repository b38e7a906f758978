// `espalier eval WHAT MODEL`: how good a model is, in figures.
#include <cmath>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_value.h"
#include "base/suggest.h"
#include "cli/open_model.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "engine/prompt.h"
#include "eval/perplexity.h"
#include "formats/hf_folder.h"
#include "formats/token_dataset.h"

namespace espalier {

extern const Verb kEval;

namespace {

struct Options {
  std::string what, model, text, tokens;
  ModelMemory memory{.dtype = "f32"};  // exact; auto scores the model as it is served
  int64_t context = 512, max_chunks = 0;
  bool per_token = false, json = false;
  void visit(Fields& f) {
    f.field("what", what, "perplexity");
    f.field("model", model, "Hugging Face folder, .gguf, run folder, or the id of a model in the cache");
    f.field("text", text, "text file to predict");
    f.field("tokens", tokens, "token shards to predict, instead of a text");
    f.field("context", context, "tokens of a chunk; the second half of each is scored", 3);
    f.field("max_chunks", max_chunks, "use the first so many chunks only; 0: all", 0);
    f.field("per_token", per_token,
            "one object {i, id, nll} a line for each scored token; the result behind them with --json");
    memory.visit(f);
    f.field("json", json, "the result as one object: ppl, nll (mean, in nats), tokens_scored, chunks");
  }
};

/// The ids to score, and the BOS that belongs before each chunk.
struct Input {
  std::vector<int32_t> ids;
  std::optional<int32_t> bos;
};

Input input_of(const Options& options, const std::string& folder) {
  if (options.text.empty() == options.tokens.empty())
    throw Error(Code::kUsage, "eval perplexity needs --text FILE or --tokens SHARDS, one of them");
  Input input;
  if (!options.tokens.empty()) {
    const TokenDataset shards = TokenDataset::open(options.tokens);
    input.ids.resize(size_t(shards.token_count()));
    shards.read(0, shards.token_count(), input.ids.data());
    return input;
  }
  const Tokenizer tokenizer = open_tokenizer(folder);
  input.bos = leading_bos(tokenizer);
  // As llama.cpp does, the text itself starts with BOS too, so that chunks are cut at the same places.
  if (input.bos) input.ids.push_back(*input.bos);
  tokenizer.encode(read_file(options.text, size_t{1} << 30), input.ids);
  return input;
}

void print(Terminal& terminal, const Options& options, const Perplexity& p) {
  if (options.per_token)
    for (const TokenScore& t : p.tokens)
      terminal.write(OrderedJson{{"i", t.i}, {"id", t.id}, {"nll", t.nll}}.dump() + "\n");
  const OrderedJson object = {
      {"ppl", p.ppl}, {"nll", p.nll}, {"tokens_scored", p.tokens_scored}, {"chunks", p.chunks}};
  if (options.json) return terminal.write(object.dump() + "\n");
  const std::string words =
      fmt::format("perplexity {:.4f} ({:.4f} nats, {:.4f} bits a token) over {} tokens of {} chunks of {}", p.ppl,
                  p.nll, p.nll / std::log(2.0), p.tokens_scored, p.chunks, options.context);
  if (options.per_token)
    terminal.log().info("{}", words);
  else
    terminal.write(words + "\n");
}

int run(Terminal& terminal, std::span<const std::string> args) {
  Options options;
  if (!read_args(terminal, kEval, args, ESP_CONFIG(options))) return 0;
  if (options.what != "perplexity") {
    const std::string known[] = {"perplexity"};
    throw error(Code::kUsage, "unknown evaluation '{}'{}; there is perplexity", options.what,
                did_you_mean(options.what, known));
  }
  const std::string folder = find_model(options.model);
  Input input = input_of(options, folder);
  if (options.max_chunks > 0 && options.max_chunks < int64_t(input.ids.size()) / options.context)
    input.ids.resize(size_t(options.max_chunks * options.context));
  const auto model = open_model(terminal, folder, options.memory);
  const PerplexityOptions how{.context = options.context, .bos = input.bos};
  print(terminal, options, perplexity(terminal.context(), *model, input.ids, how, terminal.progress()));
  return 0;
}

}  // namespace

const Verb kEval = {"eval", "Use", "how well a model predicts: perplexity", "what model",
                    "espalier eval perplexity runs/demo --text book.txt --context 256\n"
                    "espalier eval perplexity runs/demo --tokens data/val --context 256 --json", run};

}  // namespace espalier
